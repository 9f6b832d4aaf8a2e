//go:build !go1.20

package dlock

import "context"

const hasCauses = false

func cause(ctx context.Context) error { return ctx.Err() }
