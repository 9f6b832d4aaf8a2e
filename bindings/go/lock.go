//go:build cgo

package dlock

import (
	"context"
	"strings"
	"time"
)

// A Lock is a lock with one name, shared by all hosts; the methods of Client make its kinds. Any number of goroutines may use
// one Lock, and several Locks of a client with the same name are the same lock. Locks are not re-entrant: a holder that locks
// again waits for itself.
type Lock struct {
	client  *Client
	handle  *cLock
	name    string
	notHeld error // the error of Unlock for a grant that has ended
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

// An Inspection is the state of a lock at the server.
type Inspection struct {
	Holder    string        // its id on the wire, "" when the lock is free
	HeldFor   time.Duration // 0 when unknown
	Remaining time.Duration // until the lease ends
	Token     int64         // at least that of the holder; -1 when unknown
	Waiters   int           // processes in line
	Foreign   bool          // the holder is not libdlock
}

// Inspect asks the server who holds the lock. ErrUnsupported for a MultiLock.
func (l *Lock) Inspect(ctx context.Context) (seen Inspection, err error) {
	l = l.orNone()
	a, err := l.request(ctx, unknown, l.handle.submitInspect)
	left := duration(a.RemainingMs)
	return Inspection{a.text, duration(a.HeldForMs), left, a.Token, int(a.Waiters), a.Foreign == 1}, err
}

// Adopt takes over a grant of this lock that another process has exported. The grant keeps its token. ErrInvalidGrant; ErrLost
// when the lease has ended or somebody else has adopted the grant; ErrBusy when this process holds the lock or waits for it;
// ErrUnknownOutcome when ctx ends before the answer: a grant that still arrives is released.
func (l *Lock) Adopt(ctx context.Context, exported []byte) (*Grant, error) {
	g, err := l.orNone().newGrant(ctx)
	if err != nil {
		return nil, err
	}
	submit := func(tag int64, a *answer) bool {
		a.err = g.lock.handle.submitAdoptGrant(g.owner, exported, tag)
		return a.err == nil
	}
	a := g.lock.submit(submit, g.won).wait(ctx, unknown)
	return g.unless(a.err)
}

// ---- kinds

// MultiLock returns 1 to 16 locks of this client as one lock: all of them are acquired, or none. They may be mutexes, fair,
// read and write locks. The token of a grant is the largest of the members' tokens. ErrDuplicateName, ErrInvalidArgument.
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

// A Semaphore is a number of permits that all processes share. A grant has as many as the option Permits says, until it is
// unlocked.
type Semaphore Lock

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return (*Lock)(s).Name() }

// A Latch is a count-down latch: all waiters pass when the count is zero.
type Latch Lock

// Name returns the name of the latch.
func (l *Latch) Name() string { return (*Lock)(l).Name() }

// passed ends the grant of a latch, which holds nothing.
func passed(g *Grant, err error) error {
	if err == nil {
		g.lose(g.lock.notHeld)
	}
	return err
}
