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

// LockWithin is Lock with a limit to the wait, after which it returns ErrTimedOut. Without any wait, 0, it is TryLock.
func (l *Lock) LockWithin(ctx context.Context, wait time.Duration) (*Grant, error) {
	if wait < 0 {
		return nil, invalid("a wait is not negative")
	}
	return l.acquire(ctx, wait)
}

// TryLock is Lock without waiting for others: ErrBusy when somebody else has the lock.
func (l *Lock) TryLock(ctx context.Context) (*Grant, error) { return l.acquire(ctx, 0) }

// ForceUnlock takes the lock from whoever has it, anywhere. Others may have it at once; its holder learns of that at its next
// renewal, up to a third of its lease later. ErrNotHeld when it was free.
func (l *Lock) ForceUnlock(ctx context.Context) error { return l.do(ctx, (*cLock).submitForceRelease) }

// CloseGate ends all waits for the lock, in all processes, with ErrGateClosed, and refuses new ones until the gate is opened
// or ttl is over. Who has the lock keeps it.
func (l *Lock) CloseGate(ctx context.Context, ttl time.Duration) error {
	return l.do(ctx, func(h *cLock, tag int64) error { return h.submitCloseGate(milliseconds(ttl), tag) })
}

// OpenGate lets everybody in again. ErrUnchanged when the gate was open.
func (l *Lock) OpenGate(ctx context.Context) error { return l.do(ctx, (*cLock).submitOpenGate) }

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

// Mutex returns the lock called name that one holder has at a time. Nothing is sent, here and in the other methods that
// return locks.
//
// ErrInvalidName, ErrUnknownOption, ErrInvalidOption, ErrClosed.
func (c *Client) Mutex(name string, options ...Option) (*Lock, error) {
	return c.newLock(kindMutex, name, options)
}

// FairMutex is a Mutex that everybody has in the order in which they asked for it.
func (c *Client) FairMutex(name string, options ...Option) (*Lock, error) {
	return c.newLock(kindFair, name, options)
}

// ReadLock returns the side of a read-write lock that many may have together.
func (c *Client) ReadLock(name string, options ...Option) (*Lock, error) {
	return c.newLock(kindRead, name, options)
}

// WriteLock returns the side of a read-write lock that one has alone.
func (c *Client) WriteLock(name string, options ...Option) (*Lock, error) {
	return c.newLock(kindWrite, name, options)
}

// Semaphore returns the semaphore called name, whose permits stay taken until they are unlocked, also when their holder's
// process dies.
func (c *Client) Semaphore(name string, options ...Option) (*Semaphore, error) {
	l, err := c.newLock(kindSemaphore, name, options)
	return (*Semaphore)(l), err
}

// PermitSemaphore returns the semaphore called name whose permits are leases: they are renewed, have ids, and come back when
// nobody renews them.
func (c *Client) PermitSemaphore(name string, options ...Option) (*Semaphore, error) {
	l, err := c.newLock(kindPermitSemaphore, name, options)
	return (*Semaphore)(l), err
}

// Latch returns the count-down latch called name.
func (c *Client) Latch(name string, options ...Option) (*Latch, error) {
	l, err := c.newLock(kindLatch, name, options)
	return (*Latch)(l), err
}

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

// SetPermits gives a semaphore that does not exist yet its permits. ErrUnchanged when it does.
func (s *Semaphore) SetPermits(ctx context.Context, n int) error {
	return (*Lock)(s).do(ctx, func(h *cLock, tag int64) error { return h.semaphoreSubmitSet(int64(n), tag) })
}

// AddPermits adds permits, or takes them away for good when n is negative, and returns how many are free, which may be less
// than none.
func (s *Semaphore) AddPermits(ctx context.Context, n int) (int64, error) {
	return (*Lock)(s).value(ctx, func(h *cLock, tag int64) error { return h.semaphoreSubmitAdd(int64(n), tag) })
}

// DrainPermits takes all permits that are free for good, and returns how many. ErrUnsupported for a PermitSemaphore.
func (s *Semaphore) DrainPermits(ctx context.Context) (int64, error) {
	return (*Lock)(s).value(ctx, (*cLock).semaphoreSubmitDrain)
}

// AvailablePermits returns how many permits are free.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int64, error) {
	return (*Lock)(s).value(ctx, (*cLock).semaphoreSubmitAvailable)
}

// CloseGate is Lock.CloseGate.
func (s *Semaphore) CloseGate(ctx context.Context, ttl time.Duration) error {
	return (*Lock)(s).CloseGate(ctx, ttl)
}

// OpenGate is Lock.OpenGate.
func (s *Semaphore) OpenGate(ctx context.Context) error { return (*Lock)(s).OpenGate(ctx) }

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

// SetCount gives a latch that is open its count. ErrUnchanged when it has one.
func (l *Latch) SetCount(ctx context.Context, n int) error {
	return (*Lock)(l).do(ctx, func(h *cLock, tag int64) error { return h.latchSubmitSet(int64(n), tag) })
}

// CountDown counts down by n, not below zero, and returns what is left.
func (l *Latch) CountDown(ctx context.Context, n int) (int64, error) {
	return (*Lock)(l).value(ctx, func(h *cLock, tag int64) error { return h.latchSubmitCountDown(int64(n), tag) })
}

// Count returns the count. Zero: the latch is open.
func (l *Latch) Count(ctx context.Context) (int64, error) {
	return (*Lock)(l).value(ctx, (*cLock).latchSubmitCount)
}

// CloseGate is Lock.CloseGate.
func (l *Latch) CloseGate(ctx context.Context, ttl time.Duration) error {
	return (*Lock)(l).CloseGate(ctx, ttl)
}

// OpenGate is Lock.OpenGate.
func (l *Latch) OpenGate(ctx context.Context) error { return (*Lock)(l).OpenGate(ctx) }
