package dlock

// #include <dlock.h>
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// A Lock is a lock of one name, on all hosts together; the methods of Client say which kinds there are. Any number of
// goroutines may use one Lock, and several Locks of one client on one name are the same lock. None is re-entrant: who has it
// and locks it again waits for itself.
type Lock struct {
	client *Client
	handle *C.dlock_lock
	name   string
}

// c is the handle; the library refuses the one of a lock that no client made.
func (l *Lock) c() *C.dlock_lock {
	if l == nil {
		return nil
	}
	return l.handle
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
// When ctx ends first, the error is ErrCancelled or ErrTimedOut, and also that of the context. ErrClosed, ErrGateClosed,
// ErrUnreachable, ErrDenied, ErrWrongKind, the ErrServer statuses. After any error nothing is held: a grant that was on its
// way is given back.
func (l *Lock) Lock(ctx context.Context) (*Grant, error) { return l.acquire(ctx, -1) }

// LockWithin is Lock with a limit to the wait, after which it returns ErrTimedOut.
func (l *Lock) LockWithin(ctx context.Context, wait time.Duration) (*Grant, error) {
	if wait < 0 {
		return nil, invalid("a wait is not negative")
	}
	return l.acquire(ctx, wait)
}

// TryLock is Lock without waiting for others: ErrBusy when somebody else has the lock.
func (l *Lock) TryLock(ctx context.Context) (*Grant, error) { return l.acquire(ctx, 0) }

func (l *Lock) acquire(ctx context.Context, wait time.Duration) (*Grant, error) {
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
		if wait > 0 {
			if wait -= time.Since(start); wait < 0 {
				wait = 0
			}
		}
		err = g.submit(milliseconds(wait))
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

// order makes a call that blocks for a round trip. It goes on in the background when ctx ends before it.
func (l *Lock) order(ctx context.Context, f func(b *box) C.dlock_status) error {
	if l.c() == nil {
		return invalid("a lock comes from a client")
	}
	return l.client.order(ctx, l, f)
}

// ask is order for a call with a result.
func ask[T any](ctx context.Context, l *Lock, f func(to *T, b *box) C.dlock_status) (T, error) {
	answer := new(T)
	if err := l.order(ctx, func(b *box) C.dlock_status { return f(answer, b) }); err != nil {
		return *new(T), err // the call may go on, and write to answer
	}
	return *answer, nil
}

// ForceUnlock takes the lock from whoever has it, anywhere. ErrNotHeld when it was free.
func (l *Lock) ForceUnlock(ctx context.Context) error {
	return l.order(ctx, func(b *box) C.dlock_status { return C.dlock_lock_force_release(l.c(), b.c) })
}

// CloseGate ends all waits for the lock, in all processes, with ErrGateClosed, and refuses new ones until the gate is opened
// or ttl is over. Who has the lock keeps it.
func (l *Lock) CloseGate(ctx context.Context, ttl time.Duration) error {
	ms := C.int64_t(milliseconds(ttl))
	return l.order(ctx, func(b *box) C.dlock_status { return C.dlock_lock_close_gate(l.c(), ms, b.c) })
}

// OpenGate lets everybody in again. ErrUnchanged when the gate was open.
func (l *Lock) OpenGate(ctx context.Context) error {
	return l.order(ctx, func(b *box) C.dlock_status { return C.dlock_lock_open_gate(l.c(), b.c) })
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
	return ask(ctx, l, func(to *Inspection, b *box) C.dlock_status {
		event := C.dlock_event_new()
		defer C.dlock_event_free(event)
		status, f := C.dlock_lock_inspect(l.c(), event, b.c), unpack(event)
		*to = Inspection{
			Holder: C.GoString(C.dlock_event_text(event)), HeldFor: duration(f[C.DLOCK_FIELD_HELD_FOR_MS]),
			Remaining: duration(f[C.DLOCK_FIELD_REMAINING_MS]), Token: int64(f[C.DLOCK_FIELD_TOKEN]),
			Waiters: int(f[C.DLOCK_FIELD_WAITERS]), Foreign: f[C.DLOCK_FIELD_FOREIGN] == 1,
		}
		return status
	})
}

// Adopt takes over a grant of this lock that another process has exported. It keeps its token. ErrInvalidGrant, ErrLost
// when the lease ended meanwhile, ErrBusy when this process has the lock or waits for it.
func (l *Lock) Adopt(ctx context.Context, exported []byte) (*Grant, error) {
	g, err := l.newGrant(ctx)
	if err != nil {
		return nil, err
	}
	bytes := string(exported) // a copy
	err = l.order(ctx, func(b *box) C.dlock_status {
		var token C.int64_t
		from := (*C.uint8_t)(unsafe.Pointer(cString(bytes)))
		status := C.dlock_lock_adopt_grant(l.c(), g.id(), from, C.size_t(len(bytes)), &token, b.c)
		if status == C.DLOCK_OK {
			g.settle(int64(token), nil)
		}
		return status
	})
	if err != nil {
		g.abandon()
		l.client.core.leave(g)
		return nil, err
	}
	return g, nil
}
