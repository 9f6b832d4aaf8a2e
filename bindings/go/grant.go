package dlock

// #include <dlock.h>
import "C"

import (
	"context"
	"sync"
	"time"
	"unsafe"
)

// A Grant is one successful acquisition of a lock. It may be handed to other goroutines, and several may use it. It is
// held, and keeps its client in use, until it is unlocked or lost.
type Grant struct {
	lock   *Lock
	owner  int64
	token  int64 // set before won is
	parent context.Context
	won    chan error // how the wait ended
	left   chan error // how the release ended

	mutex     sync.Mutex // guards what follows
	settled   bool       // won has its answer
	abandoned bool       // nobody waits for it any more
	unlocked  bool
	over      error // why it is not held any more, once that is known
	ctx       context.Context
	cancel    func(error)
}

// ---- getting it

// submit asks for the lock; an event will settle g.
func (g *Grant) submit(wait int64) error {
	return g.call(func(handle *C.dlock_lock, owner C.int64_t, box *C.dlock_error) C.dlock_status {
		return C.dlock_lock_submit_acquire(handle, owner, C.int64_t(wait), owner, box)
	})
}

// try asks for the lock and blocks its thread for one round trip.
func (g *Grant) try() error {
	var token C.int64_t
	err := g.call(func(handle *C.dlock_lock, owner C.int64_t, box *C.dlock_error) C.dlock_status {
		return C.dlock_lock_acquire(handle, owner, 0, &token, box)
	})
	if err == nil {
		g.settle(int64(token), nil)
	}
	return err
}

// settle is how the wait ended. A grant that nobody waits for any more is given back.
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

// abandon ends the wait from the waiter's side, without waiting for the server.
func (g *Grant) abandon() {
	g.mutex.Lock()
	g.abandoned = true
	settled := g.settled
	g.mutex.Unlock()
	if settled {
		if <-g.won == nil {
			g.giveBack()
		}
		return
	}
	g.call(func(handle *C.dlock_lock, owner C.int64_t, _ *C.dlock_error) C.dlock_status {
		return C.dlock_lock_cancel(handle, owner, nil)
	})
}

func (g *Grant) giveBack() {
	if g.submitRelease() != nil {
		g.lock.client.core.leave(g)
	}
}

// ---- while it is held

// Token returns the fencing token: it grows with every grant of the lock's name. A resource that stores the highest token it
// has seen and refuses lower ones is safe even from a holder that does not know yet that it lost the lock.
func (g *Grant) Token() int64 { return g.token }

// Context returns a child of the context that Lock was given, which is cancelled when the lock is lost, in time for the work
// to stop, and when it is unlocked. context.Cause then says why: an error that is ErrLost, or context.Canceled.
func (g *Grant) Context() context.Context {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.ctx == nil {
		parent := g.parent
		if parent == nil { // of a Grant that no Lock returned
			parent = context.Background()
		}
		g.ctx, g.cancel = withCancelCause(parent)
		if g.over != nil || g.parent == nil {
			g.cancel(g.over)
		}
	}
	return g.ctx
}

// Remaining returns for how long the hold may be trusted if no renewal comes through, by the clock at this instant; 0 when
// the lock is not held any more.
func (g *Grant) Remaining() time.Duration {
	left, _ := g.remaining()
	return left
}

// Err returns nil while the lock is held, by the clock at this instant, then an error that is ErrLost or ErrNotHeld.
func (g *Grant) Err() error {
	g.mutex.Lock()
	over := g.over
	g.mutex.Unlock()
	if over != nil {
		return over
	}
	_, err := g.remaining()
	return err
}

func (g *Grant) remaining() (time.Duration, error) {
	var left C.int64_t
	err := g.call(func(handle *C.dlock_lock, owner C.int64_t, box *C.dlock_error) C.dlock_status {
		return C.dlock_lock_remaining_ms(handle, owner, &left, box)
	})
	return duration(left), err
}

// Extend makes the server keep the lock for lease from now and from each renewal. ErrNotHeld, ErrLost.
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	return g.lock.order(ctx, func(handle *C.dlock_lock, box *C.dlock_error) C.dlock_status {
		return C.dlock_lock_extend(handle, C.int64_t(g.owner), C.int64_t(milliseconds(lease)), box)
	})
}

// Export gives the grant away: another process Adopts what is returned, before the lease ends. Nothing is held here
// afterwards. ErrNotHeld, ErrLost.
func (g *Grant) Export() ([]byte, error) {
	var size C.size_t
	buffer := make([]byte, 512+len(g.lock.Name()))
	err := g.call(func(handle *C.dlock_lock, owner C.int64_t, box *C.dlock_error) C.dlock_status {
		to := (*C.uint8_t)(unsafe.Pointer(&buffer[0]))
		return C.dlock_lock_export_grant(handle, owner, to, C.size_t(len(buffer)), &size, box)
	})
	if err != nil {
		return nil, err
	}
	g.lock.client.core.leave(g)
	g.finish(failure(ErrNotHeld, "the grant was exported"), nil)
	return buffer[:size], nil
}

// lose is what the library says when the lock is lost.
func (g *Grant) lose(err error) {
	g.lock.client.core.leave(g)
	g.finish(err, err)
}

// finish notes why g is over and ends its context, the first time.
func (g *Grant) finish(over, cause error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.over == nil {
		g.over = over
		if g.cancel != nil {
			g.cancel(cause)
		}
	}
}

// ---- giving it back

// Unlock releases the lock and waits for the server to confirm it, no longer than ctx. When it cannot wait the error is
// ErrUnknownOutcome, and the release goes on in the background; so a context that is over is no reason not to unlock.
//
// ErrLost when the lock had been lost, ErrNotHeld when it was unlocked before.
func (g *Grant) Unlock(ctx context.Context) error {
	if g == nil || ctx == nil {
		return invalid("unlocking needs a grant and a context")
	}
	core, err := g.lock.live()
	if err != nil {
		return err
	}
	g.mutex.Lock()
	again := g.unlocked
	g.unlocked = true
	g.mutex.Unlock()
	if again {
		return failure(ErrNotHeld, "")
	}
	g.finish(failure(ErrNotHeld, ""), nil)
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
		return ended(ctx, ErrUnknownOutcome, ErrUnknownOutcome)
	}
}

func (g *Grant) release() error {
	return g.call(func(handle *C.dlock_lock, owner C.int64_t, box *C.dlock_error) C.dlock_status {
		return C.dlock_lock_release(handle, owner, box)
	})
}

func (g *Grant) submitRelease() error {
	return g.call(func(handle *C.dlock_lock, owner C.int64_t, box *C.dlock_error) C.dlock_status {
		return C.dlock_lock_submit_release(handle, owner, owner, box)
	})
}

// gone is how the release ended.
func (g *Grant) gone(err error) {
	g.lock.client.core.leave(g)
	select {
	case g.left <- err:
	default:
	}
}

// call makes a call of the library with the lock's handle and the owner.
func (g *Grant) call(f func(handle *C.dlock_lock, owner C.int64_t, box *C.dlock_error) C.dlock_status) error {
	if g == nil {
		return invalid("a grant comes from a method of a lock")
	}
	return g.lock.call(func(handle *C.dlock_lock, box *C.dlock_error) C.dlock_status {
		return f(handle, C.int64_t(g.owner), box)
	})
}
