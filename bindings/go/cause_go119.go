//go:build !go1.20

package dlock

import "context"

// Go 1.19 has no causes: nobody can ask for them. Grant.Err says why in every version.
func withCancelCause(parent context.Context) (context.Context, func(cause error)) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, func(error) { cancel() }
}
