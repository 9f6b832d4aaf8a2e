//go:build cgo && !go1.20

package dlock

import "context"

// withCancelCause drops the cause, since Go 1.19 has no context.Cause. Grant.Err returns it.
func withCancelCause(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, func(error) { cancel() }
}
