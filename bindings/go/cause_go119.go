//go:build !go1.20

package dlock

import "context"

// withCancelCause drops the cause: in Go 1.19 nobody can ask for it. Grant.Err has it.
func withCancelCause(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, func(error) { cancel() }
}
