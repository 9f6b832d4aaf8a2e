package dlock

// #include <dlock.h>
import "C"

import (
	"context"
	"sync"
	"time"
	"unsafe"
)

// A Grant is one acquisition of a lock. It is held, and keeps its client in use, until it is unlocked or lost. Any
// goroutines may use it.
type Grant struct {
	lock   *Lock
	owner  int64
	token  int64 // set before won is
	parent context.Context
	won    chan error // how the wait ended
	left   chan error // how the release ended

	mutex     sync.Mutex // guards what follows
	settled   bool       // the wait has ended
	abandoned bool       // nobody waits any more
	unlocked  bool
	over      error // why it is not held any more, once that is known
	ctx       context.Context
	cancel    func(error)
}

func (l *Lock) newGrant(ctx context.Context) (*Grant, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	g := &Grant{lock: l, parent: ctx, won: make(chan error, 1), left: make(chan error, 1)}
	return g, l.client.core.enter(g)
}

// usable is nil for a grant that a lock made.
func (g *Grant) usable() error {
	if g == nil || g.lock == nil {
		return invalid("a grant comes from a method of a lock")
	}
	return nil
}

// id is the owner to the library, and the tag of its requests.
func (g *Grant) id() C.int64_t { return C.int64_t(g.owner) }

// ---- from the request to the grant

// try asks for the lock and blocks its thread for one round trip.
func (g *Grant) try() error {
	var token C.int64_t
	b := blockingBox()
	err := b.done(C.dlock_lock_acquire(g.lock.handle, g.id(), 0, &token, b.c), g)
	if err == nil {
		g.settle(int64(token), nil)
	}
	return err
}

// submit asks for the lock; an event will settle that.
func (g *Grant) submit(wait int64) error {
	b := quickBox()
	return b.done(C.dlock_lock_submit_acquire(g.lock.handle, g.id(), C.int64_t(wait), g.id(), b.c), g)
}

// settle says how the wait ended. A grant that nobody waits for any more is given back.
func (g *Grant) settle(token int64, err error) {
	g.mutex.Lock()
	again, late := g.settled, g.abandoned
	if !again {
		g.settled, g.token = true, token
	}
	g.mutex.Unlock()
	if again {
		return
	}
	if err != nil {
		g.lock.client.core.leave(g)
	} else if late {
		g.giveBack()
	}
	g.won <- err
}

// abandon ends the wait, without waiting for the server.
func (g *Grant) abandon() {
	g.mutex.Lock()
	settled := g.settled
	g.abandoned = true
	g.mutex.Unlock()
	if !settled {
		b := quickBox()
		_ = b.done(C.dlock_lock_cancel(g.lock.handle, g.id(), nil), g) // an event settles it in any case
	} else if <-g.won == nil {
		g.giveBack()
	}
}

func (g *Grant) giveBack() {
	if g.submitRelease() != nil {
		g.lock.client.core.leave(g)
	}
}

// ---- while it is held

// Token returns the fencing token. It grows with every grant of the lock's name: a resource that stores the highest token it
// has seen and refuses lower ones is safe even from a holder that does not know yet that it lost the lock.
func (g *Grant) Token() int64 {
	if g == nil {
		return 0
	}
	return g.token
}

// Context returns a child of the context that Lock was given. It is cancelled when the lock is lost, before anybody else
// can have it, and when it is unlocked. context.Cause says which: an error that is ErrLost, or context.Canceled.
func (g *Grant) Context() context.Context {
	if g.usable() != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.ctx == nil {
		g.ctx, g.cancel = withCancelCause(g.parent)
		if g.over != nil {
			g.cancel(lossOnly(g.over))
		}
	}
	return g.ctx
}

// Remaining returns for how long the lock may be trusted if no renewal comes through, by the clock at this instant; 0 when
// it is not held.
func (g *Grant) Remaining() time.Duration {
	left, _ := g.remaining()
	return left
}

// Err returns nil while the lock is held, by the clock at this instant, and then why not: ErrLost, ErrNotHeld.
func (g *Grant) Err() error {
	_, err := g.remaining()
	if err == nil {
		return nil
	}
	if g.usable() == nil {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		if g.over != nil {
			return g.over
		}
	}
	return err
}

func (g *Grant) remaining() (time.Duration, error) {
	if err := g.usable(); err != nil {
		return 0, err
	}
	var left C.int64_t
	b := quickBox()
	err := b.done(C.dlock_lock_remaining_ms(g.lock.handle, g.id(), &left, b.c), g)
	return duration(left), err
}

// Extend makes the server keep the lock for lease from now on and from each renewal. ErrNotHeld, ErrLost.
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	if err := g.usable(); err != nil {
		return err
	}
	return g.lock.order(ctx, func(b *box) C.dlock_status {
		return C.dlock_lock_extend(g.lock.handle, g.id(), C.int64_t(milliseconds(lease)), b.c)
	})
}

// Export gives the grant out of this process: another one adopts the bytes before the lease ends. Afterwards nothing is held
// here. ErrNotHeld, ErrLost.
func (g *Grant) Export() ([]byte, error) {
	if err := g.usable(); err != nil {
		return nil, err
	}
	var size C.size_t
	b, bytes := quickBox(), make([]byte, 512+len(g.lock.name))
	to := (*C.uint8_t)(unsafe.Pointer(&bytes[0]))
	if err := b.done(C.dlock_lock_export_grant(g.lock.handle, g.id(), to, C.size_t(len(bytes)), &size, b.c), g); err != nil {
		return nil, err
	}
	g.lock.client.core.leave(g)
	g.finish(failure(ErrNotHeld, "the grant was exported"))
	return bytes[:size], nil
}

// lose says that the library has told of the loss.
func (g *Grant) lose(err error) {
	g.lock.client.core.leave(g)
	g.finish(err)
}

// finish notes, the first time, why the lock is not held any more.
func (g *Grant) finish(over error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.over == nil {
		g.over = over
		if g.cancel != nil {
			g.cancel(lossOnly(over))
		}
	}
}

// lossOnly is the cause that a context ends with: giving a lock back is no error.
func lossOnly(over error) error {
	if e, ok := over.(*Error); ok && e.Status == ErrNotHeld {
		return nil
	}
	return over
}

// ---- giving it back

// Unlock releases the lock and waits for the server to confirm that, for as long as ctx lasts: after ErrUnknownOutcome the
// release goes on in the background. So it may be called with a context that is over.
//
// ErrLost when the lock had been lost, ErrNotHeld when it had been unlocked.
func (g *Grant) Unlock(ctx context.Context) error {
	if err := g.usable(); err != nil {
		return err
	}
	if ctx == nil {
		return invalid("no context was given")
	}
	g.mutex.Lock()
	again := g.unlocked
	g.unlocked = true
	g.mutex.Unlock()
	if again {
		return g.lock.failure(ErrNotHeld)
	}
	g.finish(g.lock.failure(ErrNotHeld))
	core := g.lock.client.core
	if ctx.Err() == nil {
		if asked, err := core.alone(g.release); asked {
			core.leave(g)
			return err
		}
	}
	if err := g.submitRelease(); err != nil {
		core.leave(g)
		return err
	}
	select {
	case err := <-g.left:
		return err
	case <-ctx.Done():
		return g.lock.ended(ctx, ErrUnknownOutcome, ErrUnknownOutcome)
	}
}

func (g *Grant) release() error {
	b := blockingBox()
	return b.done(C.dlock_lock_release(g.lock.handle, g.id(), b.c), g)
}

func (g *Grant) submitRelease() error {
	b := quickBox()
	return b.done(C.dlock_lock_submit_release(g.lock.handle, g.id(), g.id(), b.c), g)
}

// gone says how the release ended.
func (g *Grant) gone(err error) {
	g.lock.client.core.leave(g)
	select {
	case g.left <- err:
	default:
	}
}
