//go:build dlock_static

// Package libdlock is the library itself, for programs that are built with -tags dlock_static. A released module has its C sources
// in this folder, one Go package for each folder of them. In the source tree the folder is empty: ./dev package go fills it.
package libdlock
