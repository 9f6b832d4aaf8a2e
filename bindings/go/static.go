//go:build cgo && dlock_static

package dlock

import _ "github.com/libdlock/libdlock/bindings/go/internal/libdlock" // compiled into the program
