package dlock

// #include <dlock.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"runtime"
	"time"
	"unsafe"
)

// A Lock is a lock that may be held by one goroutine of one process at a time, on any host. It is not re-entrant: who
// holds it and locks it again waits for itself. Any number of goroutines may use one Lock, and several Locks of one
// client on one name are the same lock.
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
	l := &Lock{client: c, name: name}
	bytes := C.CString(name)
	defer C.free(unsafe.Pointer(bytes))
	err := withOptions(options, func(set *C.dlock_options) error {
		return c.call(func(handle *C.dlock_client, box *C.dlock_error) C.dlock_status {
			return C.dlock_lock_new(handle, kind, bytes, C.size_t(len(name)), set, &l.handle, box)
		})
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(l, func(l *Lock) { C.dlock_lock_free(l.handle) })
	return l, nil
}

// Name returns the name of the lock.
func (l *Lock) Name() string { return l.name }

// Lock waits until the lock is held, and returns the grant to unlock. The context ends the wait, and is the parent of
// Grant.Context: to limit the wait only, use LockWithin. Waiting takes no thread.
//
// When ctx ends first the error is ErrCancelled or ErrTimedOut, and also ctx.Err(). ErrClosed, ErrUnreachable, ErrDenied,
// ErrWrongKind, the ErrServer statuses. After any error nothing is held: a grant that was under way is given back.
func (l *Lock) Lock(ctx context.Context) (*Grant, error) { return l.acquire(ctx, -1) }

// LockWithin is Lock with a limit to the wait, after which it returns ErrTimedOut.
func (l *Lock) LockWithin(ctx context.Context, wait time.Duration) (*Grant, error) {
	if wait < 0 {
		return nil, invalid("a wait is not negative")
	}
	return l.acquire(ctx, milliseconds(wait))
}

// TryLock is Lock without waiting for others: ErrBusy when somebody else holds the lock.
func (l *Lock) TryLock(ctx context.Context) (*Grant, error) { return l.acquire(ctx, 0) }

func (l *Lock) acquire(ctx context.Context, wait int64) (*Grant, error) {
	core, err := l.live()
	if err != nil {
		return nil, err
	}
	if err := ended(ctx, ErrCancelled, ErrTimedOut); err != nil {
		return nil, err
	}
	g := &Grant{lock: l, parent: ctx, won: make(chan error, 1), left: make(chan error, 1)}
	if err := core.enter(g); err != nil {
		return nil, err
	}
	start := time.Now()
	asked, err := core.alone(g.try)
	if asked && err == nil {
		return g, nil
	}
	if !asked || wait != 0 {
		err = g.submit(rest(wait, start))
	}
	if err != nil {
		core.leave(g)
		return nil, err
	}
	select {
	case err := <-g.won:
		if err != nil {
			return nil, err
		}
		return g, nil
	case <-ctx.Done():
		g.abandon()
		return nil, ended(ctx, ErrCancelled, ErrTimedOut)
	}
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

// live returns the core of the client of a lock that a client made.
func (l *Lock) live() (*core, error) {
	if l == nil || l.handle == nil {
		return nil, invalid("a lock comes from a method of a client")
	}
	return l.client.core, nil
}

// call makes a call of the library with the lock's handle.
func (l *Lock) call(f func(handle *C.dlock_lock, box *C.dlock_error) C.dlock_status) error {
	if _, err := l.live(); err != nil {
		return err
	}
	defer runtime.KeepAlive(l)
	return call(func(box *C.dlock_error) C.dlock_status { return f(l.handle, box) })
}

// order is call for what blocks; it goes on in the background when ctx ends before it.
func (l *Lock) order(ctx context.Context, f func(handle *C.dlock_lock, box *C.dlock_error) C.dlock_status) error {
	core, err := l.live()
	if err != nil {
		return err
	}
	return core.order(ctx, func() error { return l.call(f) })
}

// ForceUnlock takes the lock from whoever holds it, anywhere. ErrNotHeld when it was free.
func (l *Lock) ForceUnlock(ctx context.Context) error {
	return l.order(ctx, func(handle *C.dlock_lock, box *C.dlock_error) C.dlock_status {
		return C.dlock_lock_force_release(handle, box)
	})
}

// An Inspection is what the server knows of a lock.
type Inspection struct {
	Holder    string        // its id on the wire, "" when the lock is free
	HeldFor   time.Duration // 0 when unknown
	Remaining time.Duration
	Token     int64 // not below the holder's
	Waiters   int   // processes in line
	Foreign   bool  // the holder is not libdlock
}

// Inspect asks the server who holds the lock.
func (l *Lock) Inspect(ctx context.Context) (Inspection, error) {
	answer := make(chan Inspection, 1)
	err := l.order(ctx, func(handle *C.dlock_lock, box *C.dlock_error) C.dlock_status {
		var f [C.DLOCK_FIELD_COUNT]C.int64_t
		event := C.dlock_event_new()
		defer C.dlock_event_free(event)
		status := C.dlock_lock_inspect(handle, event, box)
		C.dlock_event_unpack(event, &f[0], C.DLOCK_FIELD_COUNT, nil, nil)
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

// Adopt takes over a grant of this lock that another process Exported. It keeps its token. ErrInvalidGrant, ErrLost when
// its lease ended meanwhile, ErrBusy when this process holds the lock or waits for it.
func (l *Lock) Adopt(ctx context.Context, exported []byte) (*Grant, error) {
	core, err := l.live()
	if err != nil {
		return nil, err
	}
	g := &Grant{lock: l, parent: ctx, won: make(chan error, 1), left: make(chan error, 1)}
	if err := core.enter(g); err != nil {
		return nil, err
	}
	bytes := C.CBytes(exported)
	err = core.order(ctx, func() error {
		defer C.free(bytes)
		var token C.int64_t
		err := g.call(func(handle *C.dlock_lock, owner C.int64_t, box *C.dlock_error) C.dlock_status {
			return C.dlock_lock_adopt_grant(handle, owner, (*C.uint8_t)(bytes), C.size_t(len(exported)), &token, box)
		})
		g.settle(int64(token), err)
		return err
	})
	if err != nil {
		g.abandon()
		core.leave(g)
		return nil, err
	}
	return g, nil
}
