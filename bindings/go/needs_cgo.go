//go:build !cgo

package dlock

// The binding calls a library in C. Without cgo this line is what the compiler refuses: its only message names what is missing.
var _ = libdlock_needs_cgo__set_CGO_ENABLED_1_and_have_a_C_compiler
