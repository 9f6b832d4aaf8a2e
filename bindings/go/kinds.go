package dlock

// #include <dlock.h>
import "C"

import (
	"context"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// Mutex returns the lock called name that one holder has at a time. Nothing is sent, here and in the other methods that
// return locks.
//
// ErrInvalidName, ErrUnknownOption, ErrInvalidOption, ErrClosed.
func (c *Client) Mutex(name string, options ...Option) (*Lock, error) {
	return c.newLock(C.DLOCK_KIND_MUTEX, name, options)
}

// FairMutex is a Mutex that everybody has in the order in which they asked for it.
func (c *Client) FairMutex(name string, options ...Option) (*Lock, error) {
	return c.newLock(C.DLOCK_KIND_FAIR, name, options)
}

// ReadLock returns the side of a read-write lock that many may have together.
func (c *Client) ReadLock(name string, options ...Option) (*Lock, error) {
	return c.newLock(C.DLOCK_KIND_READ, name, options)
}

// WriteLock returns the side of a read-write lock that one has alone.
func (c *Client) WriteLock(name string, options ...Option) (*Lock, error) {
	return c.newLock(C.DLOCK_KIND_WRITE, name, options)
}

// Semaphore returns the semaphore called name, whose permits stay taken until they are unlocked, also when their holder's
// process dies.
func (c *Client) Semaphore(name string, options ...Option) (*Semaphore, error) {
	l, err := c.newLock(C.DLOCK_KIND_SEMAPHORE, name, options)
	return &Semaphore{l}, err
}

// PermitSemaphore returns the semaphore called name whose permits are leases: they are renewed, have ids, and come back when
// nobody renews them.
func (c *Client) PermitSemaphore(name string, options ...Option) (*Semaphore, error) {
	l, err := c.newLock(C.DLOCK_KIND_PERMIT_SEMAPHORE, name, options)
	return &Semaphore{l}, err
}

// Latch returns the count-down latch called name.
func (c *Client) Latch(name string, options ...Option) (*Latch, error) {
	l, err := c.newLock(C.DLOCK_KIND_LATCH, name, options)
	return &Latch{l}, err
}

// MultiLock returns 1 to 16 locks of this client as one, to have all of them or none. They are mutexes, fair, read or write
// locks. The token of a grant is the largest of theirs. ErrDuplicateName, ErrInvalidArgument.
func (c *Client) MultiLock(locks ...*Lock) (*Lock, error) {
	handles, names := make([]*C.dlock_lock, len(locks)+1), make([]string, len(locks))
	for i, l := range locks {
		handles[i], names[i] = l.c(), l.Name()
	}
	return c.opened(strings.Join(names, " + "), func(l *Lock, b *box) C.dlock_status {
		status := C.dlock_lock_new_multi(c.c(), &handles[0], C.size_t(len(locks)), &l.handle, b.c)
		runtime.KeepAlive(locks)
		return status
	})
}

func (c *Client) newLock(kind C.int32_t, name string, options []Option) (*Lock, error) {
	set, err := newSet(options)
	if err != nil {
		return nil, err
	}
	defer C.dlock_options_free(set)
	return c.opened(name, func(l *Lock, b *box) C.dlock_status {
		return C.dlock_lock_new(c.c(), kind, cString(name), C.size_t(len(name)), set, &l.handle, b.c)
	})
}

// opened is a lock whose handle f makes.
func (c *Client) opened(name string, f func(l *Lock, b *box) C.dlock_status) (*Lock, error) {
	l, b := &Lock{client: c, name: name}, quickBox()
	if err := b.done(f(l, b), c); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(l, func(l *Lock) { C.dlock_lock_free(l.handle) })
	return l, nil
}

// ---- semaphores and latches

// A Semaphore is so many permits for everybody. A grant has as many of them as the option Permits says, until it is unlocked.
type Semaphore struct{ lock *Lock }

func (s *Semaphore) l() *Lock {
	if s == nil {
		return nil
	}
	return s.lock
}

// Acquire is Lock.Lock for permits.
func (s *Semaphore) Acquire(ctx context.Context) (*Grant, error) { return s.l().Lock(ctx) }

// AcquireWithin is Lock.LockWithin for permits.
func (s *Semaphore) AcquireWithin(ctx context.Context, wait time.Duration) (*Grant, error) {
	return s.l().LockWithin(ctx, wait)
}

// TryAcquire is Lock.TryLock for permits.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Grant, error) { return s.l().TryLock(ctx) }

// SetPermits gives a semaphore that does not exist yet its permits. ErrUnchanged when it does.
func (s *Semaphore) SetPermits(ctx context.Context, n int) error {
	return s.l().order(ctx, func(b *box) C.dlock_status {
		return C.dlock_semaphore_set(s.l().c(), C.int64_t(n), b.c)
	})
}

// AddPermits adds permits, or takes them away for good when n is negative, and returns how many are free, which may be less
// than none.
func (s *Semaphore) AddPermits(ctx context.Context, n int) (int64, error) {
	return ask(ctx, s.l(), func(to *int64, b *box) C.dlock_status {
		return C.dlock_semaphore_add(s.l().c(), C.int64_t(n), number(to), b.c)
	})
}

// DrainPermits takes all permits that are free for good, and returns how many. ErrUnsupported for a PermitSemaphore.
func (s *Semaphore) DrainPermits(ctx context.Context) (int64, error) {
	return ask(ctx, s.l(), func(to *int64, b *box) C.dlock_status {
		return C.dlock_semaphore_drain(s.l().c(), number(to), b.c)
	})
}

// AvailablePermits returns how many permits are free.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int64, error) {
	return ask(ctx, s.l(), func(to *int64, b *box) C.dlock_status {
		return C.dlock_semaphore_available(s.l().c(), number(to), b.c)
	})
}

// A Latch is a count that lets everybody pass once it is zero.
type Latch struct{ lock *Lock }

func (l *Latch) l() *Lock {
	if l == nil {
		return nil
	}
	return l.lock
}

// Wait waits until the count is zero. Its errors are those of Lock.Lock.
func (l *Latch) Wait(ctx context.Context) error { return passed(l.l().Lock(ctx)) }

// WaitWithin is Wait with a limit, after which it returns ErrTimedOut.
func (l *Latch) WaitWithin(ctx context.Context, wait time.Duration) error {
	return passed(l.l().LockWithin(ctx, wait))
}

// passed ends the grant of a latch: nothing is held.
func passed(g *Grant, err error) error {
	if err == nil {
		g.lock.client.core.leave(g)
	}
	return err
}

// SetCount gives a latch that is open its count. ErrUnchanged when it has one.
func (l *Latch) SetCount(ctx context.Context, n int) error {
	return l.l().order(ctx, func(b *box) C.dlock_status { return C.dlock_latch_set(l.l().c(), C.int64_t(n), b.c) })
}

// CountDown counts down by n, not below zero, and returns what is left.
func (l *Latch) CountDown(ctx context.Context, n int) (int64, error) {
	return ask(ctx, l.l(), func(to *int64, b *box) C.dlock_status {
		return C.dlock_latch_count_down(l.l().c(), C.int64_t(n), number(to), b.c)
	})
}

// Count returns the count. Zero: the latch is open.
func (l *Latch) Count(ctx context.Context) (int64, error) {
	return ask(ctx, l.l(), func(to *int64, b *box) C.dlock_status {
		return C.dlock_latch_count(l.l().c(), number(to), b.c)
	})
}

// number is where the library puts one.
func number(to *int64) *C.int64_t { return (*C.int64_t)(unsafe.Pointer(to)) }
