//go:build cgo && go1.20

package dlock

import "context"

func withCancelCause(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, cancel
}
