package dlock

import (
	"context"
	"time"
)

// A Lock is a lock of one name, on all hosts together; the methods of Client say which kinds there are. Any number of
// goroutines may use one Lock, and several Locks of one client on one name are the same lock. None is re-entrant: who has it
// and locks it again waits for itself.
type Lock struct {
	client *Client
	handle *cLock
	name   string
}

var noLock = &Lock{client: noClient}

func (l *Lock) orNone() *Lock {
	if l == nil || l.client == nil {
		return noLock
	}
	return l
}

// Name returns the name of the lock.
func (l *Lock) Name() string { return l.orNone().name }

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

// order makes a call that blocks for a round trip. It goes on in the background when ctx ends before it.
func (l *Lock) order(ctx context.Context, f func(h *cLock) error) error {
	_, err := l.number(ctx, func(h *cLock) (int64, error) { return 0, f(h) })
	return err
}

// number is order for a call whose result is a number.
func (l *Lock) number(ctx context.Context, f func(h *cLock) (int64, error)) (int64, error) {
	l = l.orNone()
	a := l.client.order(ctx, l.newRequest(nil), func() (a answer) {
		a.Token, a.err = f(l.handle)
		return a
	})
	return a.Token, a.err
}

// ForceUnlock takes the lock from whoever has it, anywhere. ErrNotHeld when it was free.
func (l *Lock) ForceUnlock(ctx context.Context) error { return l.order(ctx, (*cLock).forceRelease) }

// CloseGate ends all waits for the lock, in all processes, with ErrGateClosed, and refuses new ones until the gate is opened
// or ttl is over. Who has the lock keeps it.
func (l *Lock) CloseGate(ctx context.Context, ttl time.Duration) error {
	return l.order(ctx, func(h *cLock) error { return h.closeGate(milliseconds(ttl)) })
}

// OpenGate lets everybody in again. ErrUnchanged when the gate was open.
func (l *Lock) OpenGate(ctx context.Context) error { return l.order(ctx, (*cLock).openGate) }

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
	event := eventNew()
	if err := l.order(ctx, func(h *cLock) error { return h.inspect(event) }); err != nil {
		return Inspection{}, err
	}
	a := event.read()
	left := duration(a.RemainingMs)
	return Inspection{a.text, duration(a.HeldForMs), left, a.Token, int(a.Waiters), a.Foreign == 1}, nil
}

// Adopt takes over a grant of this lock that another process has exported. It keeps its token. ErrInvalidGrant, ErrLost
// when the lease ended meanwhile, ErrBusy when this process has the lock or waits for it.
func (l *Lock) Adopt(ctx context.Context, exported []byte) (*Grant, error) {
	g, err := l.orNone().newGrant(ctx)
	if err != nil {
		return nil, err
	}
	bytes := append([]byte{}, exported...)
	a := g.lock.client.order(ctx, g.lock.newRequest(g.won), func() (a answer) {
		a.Token, a.err = g.lock.handle.adoptGrant(g.owner, bytes)
		return a
	})
	return g.unless(a.err)
}
