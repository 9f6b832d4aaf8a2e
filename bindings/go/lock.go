package dlock

// #include <dlock.h>
import "C"

import (
	"context"
	"runtime"
	"time"
)

// A Lock is a name that one holder at a time may have, on all hosts together. Any number of goroutines may use one Lock, and
// several Locks of one client on one name are the same lock. It is not re-entrant: who holds it and locks it again waits
// for itself.
type Lock struct {
	client *Client
	handle *C.dlock_lock
	name   string
}

// Mutex returns the lock called name. Nothing is sent.
//
// ErrInvalidName, ErrUnknownOption, ErrInvalidOption, ErrClosed.
func (c *Client) Mutex(name string, options ...Option) (*Lock, error) {
	return c.lock(C.DLOCK_KIND_MUTEX, name, options)
}

func (c *Client) lock(kind C.int32_t, name string, options []Option) (*Lock, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	set, err := newSet(options)
	if err != nil {
		return nil, err
	}
	defer C.dlock_options_free(set)
	l, b := &Lock{client: c, name: name}, quickBox()
	status := C.dlock_lock_new(c.core.handle, kind, (*C.char)(cBytes(name)), C.size_t(len(name)), set, &l.handle, b.c)
	if err := b.done(status, c); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(l, func(l *Lock) { C.dlock_lock_free(l.handle) })
	return l, nil
}

// usable is nil for a lock that a client made and a context.
func (l *Lock) usable(ctx context.Context) error {
	if l == nil || l.handle == nil {
		return invalid("a lock comes from a method of a client")
	}
	return l.ended(ctx, ErrCancelled, ErrTimedOut)
}

// Name returns the name of the lock.
func (l *Lock) Name() string {
	if l == nil {
		return ""
	}
	return l.name
}

// Lock waits until it has the lock, and returns the grant to unlock. The context ends the wait, and is the parent of
// Grant.Context; LockWithin limits the wait alone.
//
// When ctx ends first, the error is ErrCancelled or ErrTimedOut, and also that of the context. ErrClosed, ErrUnreachable,
// ErrDenied, ErrWrongKind, the ErrServer statuses. After any error nothing is held: a grant that was on its way is given
// back.
func (l *Lock) Lock(ctx context.Context) (*Grant, error) { return l.acquire(ctx, -1) }

// LockWithin is Lock with a limit to the wait, after which it returns ErrTimedOut.
func (l *Lock) LockWithin(ctx context.Context, wait time.Duration) (*Grant, error) {
	if wait < 0 {
		return nil, invalid("a wait is not negative")
	}
	return l.acquire(ctx, milliseconds(wait))
}

// TryLock is Lock without waiting for others: ErrBusy when somebody else has the lock.
func (l *Lock) TryLock(ctx context.Context) (*Grant, error) { return l.acquire(ctx, 0) }

func (l *Lock) acquire(ctx context.Context, wait int64) (*Grant, error) {
	g, err := l.newGrant(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	asked, err := l.client.core.alone(g.try)
	if asked && err == nil {
		return g, nil
	}
	if !asked || wait != 0 {
		err = g.submit(rest(wait, start))
	}
	if err != nil {
		l.client.core.leave(g)
		return nil, err
	}
	select {
	case err = <-g.won:
	case <-ctx.Done():
		g.abandon()
		err = l.ended(ctx, ErrCancelled, ErrTimedOut)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// rest is what is left of a wait that began at start.
func rest(wait int64, start time.Time) int64 {
	if wait > 0 {
		wait -= time.Since(start).Milliseconds()
		if wait < 0 {
			return 0
		}
	}
	return wait
}

// order makes a call that blocks for a round trip. It goes on in the background when ctx ends before it.
func (l *Lock) order(ctx context.Context, f func(b *box) C.dlock_status) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	return l.client.core.order(ctx, l, func() error {
		b := blockingBox()
		return b.done(f(b), l)
	})
}

// ForceUnlock takes the lock from whoever has it, anywhere. ErrNotHeld when it was free.
func (l *Lock) ForceUnlock(ctx context.Context) error {
	return l.order(ctx, func(b *box) C.dlock_status { return C.dlock_lock_force_release(l.handle, b.c) })
}

// An Inspection is what the server knows of a lock.
type Inspection struct {
	Holder    string        // its id on the wire, "" when the lock is free
	HeldFor   time.Duration // 0 when that is not known
	Remaining time.Duration // until the lease ends
	Token     int64         // not below the holder's
	Waiters   int           // processes in line
	Foreign   bool          // the holder is not libdlock
}

// Inspect asks the server who has the lock.
func (l *Lock) Inspect(ctx context.Context) (Inspection, error) {
	answer := make(chan Inspection, 1)
	err := l.order(ctx, func(b *box) C.dlock_status {
		event := C.dlock_event_new()
		defer C.dlock_event_free(event)
		status := C.dlock_lock_inspect(l.handle, event, b.c)
		f := unpack(event)
		answer <- Inspection{
			Holder: C.GoString(C.dlock_event_text(event)), HeldFor: duration(f[C.DLOCK_FIELD_HELD_FOR_MS]),
			Remaining: duration(f[C.DLOCK_FIELD_REMAINING_MS]), Token: int64(f[C.DLOCK_FIELD_TOKEN]),
			Waiters: int(f[C.DLOCK_FIELD_WAITERS]), Foreign: f[C.DLOCK_FIELD_FOREIGN] == 1,
		}
		return status
	})
	if err != nil {
		return Inspection{}, err
	}
	return <-answer, nil
}

// Adopt takes over a grant of this lock that another process has exported. It keeps its token. ErrInvalidGrant, ErrLost
// when the lease ended meanwhile, ErrBusy when this process has the lock or waits for it.
func (l *Lock) Adopt(ctx context.Context, exported []byte) (*Grant, error) {
	g, err := l.newGrant(ctx)
	if err != nil {
		return nil, err
	}
	bytes := string(exported) // a copy
	err = l.client.core.order(ctx, l, func() error {
		var token C.int64_t
		b := blockingBox()
		status := C.dlock_lock_adopt_grant(l.handle, g.id(), (*C.uint8_t)(cBytes(bytes)), C.size_t(len(bytes)), &token, b.c)
		err := b.done(status, l)
		g.settle(int64(token), err)
		return err
	})
	if err != nil {
		g.abandon()
		l.client.core.leave(g)
		return nil, err
	}
	return g, nil
}
