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
	if l.c() == nil {
		return nil, invalid("a lock comes from a client")
	}
	if err := l.ended(ctx, ErrCancelled, ErrTimedOut); err != nil {
		return nil, err
	}
	g := &Grant{lock: l, parent: ctx, won: make(chan error, 1), left: make(chan error, 1)}
	return g, l.client.core.enter(g)
}

// l is the lock, nil when no lock made the grant.
func (g *Grant) l() *Lock {
	if g == nil {
		return nil
	}
	return g.lock
}

// id is the owner to the library, and the tag of its requests.
func (g *Grant) id() C.int64_t {
	if g == nil {
		return 0
	}
	return C.int64_t(g.owner)
}

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
// can have it, and when it is unlocked. context.Cause says which: an error that is ErrLost or ErrNotHeld.
func (g *Grant) Context() context.Context {
	if g.l() == nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.ctx == nil {
		g.ctx, g.cancel = withCancelCause(g.parent)
		if g.over != nil {
			g.cancel(g.over)
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
	if err != nil && g.l() != nil {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		if g.over != nil {
			return g.over
		}
	}
	return err
}

func (g *Grant) remaining() (time.Duration, error) {
	var left C.int64_t
	b := quickBox()
	err := b.done(C.dlock_lock_remaining_ms(g.l().c(), g.id(), &left, b.c), g)
	return duration(left), err
}

// Extend makes the server keep the lock for lease from now on and from each renewal. ErrNotHeld, ErrLost.
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	ms := C.int64_t(milliseconds(lease))
	return g.l().order(ctx, func(b *box) C.dlock_status { return C.dlock_lock_extend(g.l().c(), g.id(), ms, b.c) })
}

// PermitID returns the id of one of the permits that the grant of a PermitSemaphore has, counted from 0, as Redisson writes it.
// ErrNotHeld, ErrLost, ErrUnsupported for other locks.
func (g *Grant) PermitID(index int) (string, error) {
	b, id := quickBox(), make([]C.char, 33)
	status := C.dlock_semaphore_permit(g.l().c(), g.id(), C.int64_t(index), &id[0], C.size_t(len(id)), b.c)
	return C.GoString(&id[0]), b.done(status, g)
}

// Export gives the grant out of this process: another one adopts the bytes before the lease ends. Afterwards nothing is held
// here. ErrNotHeld, ErrLost.
func (g *Grant) Export() ([]byte, error) {
	var size C.size_t
	b, bytes := quickBox(), make([]byte, 512+len(g.l().Name()))
	to := (*C.uint8_t)(unsafe.Pointer(&bytes[0]))
	err := b.done(C.dlock_lock_export_grant(g.l().c(), g.id(), to, C.size_t(len(bytes)), &size, b.c), g)
	if err != nil {
		return nil, err
	}
	g.lose(&Error{Status: ErrNotHeld, Message: "the grant was exported"})
	return bytes[:size], nil
}

// lose says why the lock is not held any more; nothing is expected from the library.
func (g *Grant) lose(why error) {
	g.lock.client.core.leave(g)
	g.finish(why)
}

// finish notes, the first time, why the lock is not held any more.
func (g *Grant) finish(why error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.over == nil {
		g.over = why
		if g.cancel != nil {
			g.cancel(why)
		}
	}
}

// ---- giving it back

// Unlock releases the lock and waits for the server to confirm that, for as long as ctx lasts: after ErrUnknownOutcome the
// release goes on in the background. So it may be called with a context that is over.
//
// ErrLost when the lock had been lost, ErrNotHeld when it had been unlocked.
func (g *Grant) Unlock(ctx context.Context) error {
	if g.l() == nil || ctx == nil {
		return invalid("unlocking takes a grant and a context")
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
