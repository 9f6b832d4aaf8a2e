//go:build cgo

package dlock

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"time"
)

// A Grant is one acquisition of a lock. It is held, and keeps its client alive, until it is unlocked or lost. Any number of
// goroutines may use it.
type Grant struct {
	lock     *Lock
	owner    int64 // its number in the library
	token    atomic.Int64
	ctx      context.Context
	cancel   func(error)
	unlocked atomic.Bool
	over     atomic.Pointer[error] // the reason why it is not held any more, or nil
}

func (l *Lock) newGrant(ctx context.Context) (*Grant, error) {
	if err := l.ended(ctx, undone); err != nil {
		return nil, err
	}
	g := &Grant{lock: l}
	g.ctx, g.cancel = withCancelCause(ctx)
	if err := l.client.core.enter(l, g, &g.owner); err != nil {
		g.cancel(err)
		return nil, err
	}
	return g, nil
}

var none, _ = noLock.newGrant(context.Background())

func init() { none.lose(invalid("no lock has made this grant")) }

func (g *Grant) orNone() *Grant {
	if g == nil || g.lock == nil {
		return none
	}
	return g
}

// ---- from the request to the grant

func (l *Lock) acquireWithin(ctx context.Context, wait time.Duration) (*Grant, error) {
	if wait < 0 {
		return nil, invalid("a wait is not negative")
	}
	return l.acquire(ctx, wait)
}

// acquire waits without a limit when wait is -1, and not at all when it is 0.
func (l *Lock) acquire(ctx context.Context, wait time.Duration) (*Grant, error) {
	g, err := l.orNone().newGrant(ctx)
	if err != nil {
		return nil, err
	}
	begin := func(tag int64, a *answer) bool {
		a.Token, a.err = g.lock.handle.beginAcquire(g.owner, milliseconds(wait), tag)
		return a.err == ErrWouldBlock
	}
	a := g.lock.submit(begin, g.won).wait(ctx, undone)
	if a.err != nil {
		_ = g.lock.handle.cancel(g.owner) // if it still waits; the answer arrives in any case
	}
	return g.unless(a.err)
}

func (g *Grant) unless(err error) (*Grant, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

// won handles the answer. A grant that nobody waits for any more is released.
func (g *Grant) won(a answer, waiting bool) {
	g.token.Store(a.Token)
	if a.err != nil {
		g.lose(a.err)
	} else if !waiting {
		g.lock.submit(g.beginRelease, g.left)
	}
}

// ---- while it is held

// Token returns the fencing token. It grows with every grant of the lock. A resource that stores the highest token it has seen
// and refuses lower ones is safe even from a holder that does not know yet that it lost the lock.
func (g *Grant) Token() int64 { return g.orNone().token.Load() }

// Context returns a child of the context that was given to Lock. It is cancelled when the lock is unlocked or lost: before
// anybody else can hold the lock, unless Lock.ForceUnlock took it. context.Cause gives the reason, an error that is ErrNotHeld
// or ErrLost.
func (g *Grant) Context() context.Context { return g.orNone().ctx }

// Remaining returns for how long the lock is valid without another renewal, by the clock at this instant: 0 when it is not
// held, the longest Duration for permits of a Semaphore, which do not expire.
func (g *Grant) Remaining() time.Duration {
	g = g.orNone()
	left, err := g.lock.handle.remainingMs(g.owner)
	if err == nil && left < 0 {
		return math.MaxInt64
	}
	return duration(left)
}

// Err returns nil while the lock is held, by the clock at this instant, and after that the reason: ErrLost, ErrNotHeld.
func (g *Grant) Err() error {
	g = g.orNone()
	_, err := g.lock.handle.remainingMs(g.owner)
	if reason := g.over.Load(); err != nil && reason != nil {
		return *reason
	}
	return err
}

// PermitID returns the id of one permit of a PermitSemaphore's grant, as Redisson writes it; index counts from 0. ErrNotHeld,
// ErrLost; ErrUnsupported for other locks.
func (g *Grant) PermitID(index int) (string, error) {
	g = g.orNone()
	id := make([]byte, 33)
	err := g.lock.handle.semaphorePermit(g.owner, int64(index), id)
	return strings.TrimRight(string(id), "\x00"), err
}

// Export gives the grant away, in one round trip: another process can adopt the bytes until the lease ends. They are a secret
// that works once. The lock is then not held here; after an error it is held as before. ErrNotHeld, ErrLost.
func (g *Grant) Export() ([]byte, error) {
	g = g.orNone()
	bytes := make([]byte, 512+len(g.lock.name))
	size, err := g.lock.handle.exportGrant(g.owner, bytes)
	if err != nil {
		return nil, err
	}
	g.lose(&Error{Status: ErrNotHeld, Message: "the grant was exported"})
	return bytes[:size], nil
}

// lose ends the grant with a reason. No event of the library will follow.
func (g *Grant) lose(reason error) {
	g.lock.client.core.leave(g.owner)
	g.finish(reason)
}

// finish stores the reason why the lock is not held any more. Only the first call has an effect.
func (g *Grant) finish(reason error) {
	if g.over.CompareAndSwap(nil, &reason) {
		g.cancel(reason)
	}
}

func (g *Grant) closed() {
	reason := g.lock.failure(ErrClosed)
	reason.Status = ErrLost
	g.finish(reason)
}

// ---- giving it back

// Unlock releases the lock and waits for the confirmation of the server, until ctx ends: then it returns ErrUnknownOutcome, and
// the release goes on in the background. So it may be called with a context that has ended.
//
// ErrLost when the lock was lost before, ErrNotHeld when it was unlocked before, ErrClosed when Close has released it.
func (g *Grant) Unlock(ctx context.Context) error {
	if g = g.orNone(); g == none || ctx == nil {
		return invalid("unlocking takes a grant and a context")
	}
	if g.unlocked.Swap(true) {
		return g.lock.notHeld
	}
	g.finish(g.lock.notHeld)
	return g.lock.submit(g.beginRelease, g.left).wait(ctx, unknown).err
}

func (g *Grant) beginRelease(tag int64, a *answer) bool {
	a.err = g.lock.handle.beginRelease(g.owner, tag)
	return a.err == ErrWouldBlock
}

// left handles the answer to a release.
func (g *Grant) left(answer, bool) { g.lock.client.core.leave(g.owner) }
