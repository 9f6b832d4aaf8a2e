//go:build go1.20

package dlock

import "context"

const hasCauses = true

func cause(ctx context.Context) error { return context.Cause(ctx) }
