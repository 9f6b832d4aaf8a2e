//go:build go1.20

package dlock

import "context"

func withCancelCause(parent context.Context) (context.Context, func(cause error)) {
	return context.WithCancelCause(parent)
}
