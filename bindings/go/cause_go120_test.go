//go:build go1.20

package dlock

import "context"

func cause(ctx context.Context) error { return context.Cause(ctx) }
