package dlock

import (
	"context"
	"strings"
	"time"
)

// A Lock is a lock of one name, on all hosts together; the methods of Client say which kinds there are. Any number of
// goroutines may use one Lock, and several Locks of one client on one name are the same lock. None is re-entrant: who has it
// and locks it again waits for itself.
type Lock struct {
	client  *Client
	handle  *cLock
	name    string
	notHeld error // what Unlock says of a grant that is over
}

var noLock = &Lock{client: (*Client)(nil).orNone()}

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

// LockWithin is Lock with a limit to the wait, after which it returns ErrTimedOut. Without any wait, 0, it is TryLock.
func (l *Lock) LockWithin(ctx context.Context, wait time.Duration) (*Grant, error) {
	if wait < 0 {
		return nil, invalid("a wait is not negative")
	}
	return l.acquire(ctx, wait)
}

// TryLock is Lock without waiting for others: ErrBusy when somebody else has the lock.
func (l *Lock) TryLock(ctx context.Context) (*Grant, error) { return l.acquire(ctx, 0) }

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
func (l *Lock) Inspect(ctx context.Context) (seen Inspection, err error) {
	a, err := l.ask(ctx, (*cLock).submitInspect)
	if err == nil {
		left := duration(a.RemainingMs)
		seen = Inspection{a.text, duration(a.HeldForMs), left, a.Token, int(a.Waiters), a.Foreign == 1}
	}
	return seen, err
}

// Adopt takes over a grant of this lock that another process has exported. It keeps its token. ErrInvalidGrant, ErrLost
// when the lease ended meanwhile or somebody else has adopted it, ErrBusy when this process has the lock or waits for it.
func (l *Lock) Adopt(ctx context.Context, exported []byte) (*Grant, error) {
	g, err := l.orNone().newGrant(ctx)
	if err != nil {
		return nil, err
	}
	submit := func(tag int64) error { return g.lock.handle.submitAdoptGrant(g.owner, exported, tag) }
	a, _ := g.lock.submit(submit, g.won).wait(ctx)
	return g.unless(a.err)
}

// ---- kinds

// MultiLock returns 1 to 16 locks of this client as one, to have all of them or none. They are mutexes, fair, read or write
// locks. The token of a grant is the largest of theirs. ErrDuplicateName, ErrInvalidArgument.
func (c *Client) MultiLock(locks ...*Lock) (*Lock, error) {
	members, names := make([]*cLock, len(locks)), make([]string, len(locks))
	for i, l := range locks {
		members[i], names[i] = l.orNone().handle, l.Name()
	}
	handle, err := c.orNone().core.handle.lockNewMulti(members)
	return c.named(strings.Join(names, " + "), handle, err)
}

func (c *Client) newLock(kind int32, name string, options []Option) (*Lock, error) {
	set, err := newSet(options)
	if err != nil {
		return nil, err
	}
	handle, err := c.orNone().core.handle.lockNew(kind, name, set)
	return c.named(name, handle, err)
}

func asSemaphore(l *Lock, err error) (*Semaphore, error) { return (*Semaphore)(l), err }

func asLatch(l *Lock, err error) (*Latch, error) { return (*Latch)(l), err }

func (c *Client) named(name string, handle *cLock, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	l := &Lock{client: c, handle: handle, name: name}
	l.notHeld = l.failure(ErrNotHeld)
	return l, nil
}

// ---- semaphores and latches

// A Semaphore is so many permits for everybody. A grant has as many of them as the option Permits says, until it is unlocked.
type Semaphore Lock

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return (*Lock)(s).Name() }

// Acquire is Lock.Lock for permits.
func (s *Semaphore) Acquire(ctx context.Context) (*Grant, error) { return (*Lock)(s).Lock(ctx) }

// AcquireWithin is Lock.LockWithin for permits.
func (s *Semaphore) AcquireWithin(ctx context.Context, wait time.Duration) (*Grant, error) {
	return (*Lock)(s).LockWithin(ctx, wait)
}

// TryAcquire is Lock.TryLock for permits.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Grant, error) { return (*Lock)(s).TryLock(ctx) }

// A Latch is a count that lets everybody pass once it is zero.
type Latch Lock

// Name returns the name of the latch.
func (l *Latch) Name() string { return (*Lock)(l).Name() }

// Wait waits until the count is zero. Its errors are those of Lock.Lock.
func (l *Latch) Wait(ctx context.Context) error { return passed((*Lock)(l).Lock(ctx)) }

// WaitWithin is Wait with a limit, after which it returns ErrTimedOut; ErrBusy when that is 0.
func (l *Latch) WaitWithin(ctx context.Context, wait time.Duration) error {
	return passed((*Lock)(l).LockWithin(ctx, wait))
}

// passed ends the grant of a latch: nothing is held.
func passed(g *Grant, err error) error {
	if err == nil {
		g.lose(g.lock.notHeld)
	}
	return err
}
