package dlock

// #cgo pkg-config: dlock
// #include <dlock.h>
import "C"

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	oldest       = 0<<16 | 1<<8          // the version of libdlock whose calls are used here
	closeTimeout = 5 * time.Second       // how long Close waits for the server
	orders       = 4                     // calls like Ping that block a thread each at the same time
	slow         = 20 * time.Millisecond // a round trip longer than a thread should be blocked
)

var epoch = time.Now()

// A Client has the connections to one server, made on first use, and a watchdog that renews what is held. Any number of
// goroutines may use it. Close it; one that is dropped while nothing is held or waited for goes with the garbage.
type Client struct{ core *core }

// core is what the goroutine that reads events knows of a client. It refers to the Client only by grants that are held or
// waited for.
type core struct {
	handle *C.dlock_client
	orders chan struct{} // has one for each that is running
	events chan Event
	done   chan struct{} // closed when no more events are read

	inline    sync.Mutex   // held by the goroutine that makes a round trip on its own thread
	slowUntil atomic.Int64 // no such round trips before; a time.Duration since epoch

	mutex  sync.Mutex       // guards what follows
	owners int64            // the last owner number given out
	grants map[int64]*Grant // by owner
	ended  bool             // no more events come
}

// Open makes a client from a URL: redis://[user[:password]@]host[:port][/db][?option=value&...] or
// redis+unix:///path[?...]. Options win over those in the URL. Nothing is connected yet; Ping does that.
//
// ErrInvalidURL, ErrUnknownOption, ErrInvalidOption, ErrUnsupported.
func Open(url string, options ...Option) (*Client, error) {
	if C.dlock_version() < oldest {
		message := "libdlock " + Version() + " was loaded, which is too old for this binding"
		return nil, &Error{Status: ErrUnsupported, Message: message}
	}
	if strings.Contains(url, "\x00") {
		return nil, invalid("a NUL in the URL")
	}
	set, err := newSet(options)
	if err != nil {
		return nil, err
	}
	defer C.dlock_options_free(set)
	c := &core{grants: map[int64]*Grant{}, orders: make(chan struct{}, orders), done: make(chan struct{})}
	c.events = make(chan Event, eventRoom)
	b := quickBox()
	if err := b.done(C.dlock_client_open(cString(url), set, &c.handle, b.c), nil); err != nil {
		return nil, err
	}
	file, err := c.descriptor()
	if err != nil {
		C.dlock_client_free(c.handle)
		return nil, err
	}
	go c.read(file)
	client := &Client{c}
	runtime.SetFinalizer(client, func(*Client) {
		go func() {
			file.Close() // ends the reading
			<-c.done
			C.dlock_client_free(c.handle)
		}()
	})
	return client, nil
}

// Version returns the version of the loaded library, for example "0.1.0".
func Version() string { return C.GoString(C.dlock_version_string()) }

// c is the handle; the library refuses the one of a client that Open did not make.
func (c *Client) c() *C.dlock_client {
	if c == nil || c.core == nil {
		return nil
	}
	return c.core.handle
}

// Close ends all waits with ErrClosed, releases what is held, and stops. It waits up to five seconds for the server; after
// ErrTimedOut what is left expires by its lease. Closing again is fine.
func (c *Client) Close() error {
	b := blockingBox()
	return b.done(C.dlock_client_close(c.c(), C.int64_t(closeTimeout.Milliseconds()), b.c), c)
}

// Ping asks the server for a sign of life. ErrUnreachable, ErrDenied and the ErrServer statuses.
func (c *Client) Ping(ctx context.Context) error {
	return c.order(ctx, nil, func(b *box) C.dlock_status { return C.dlock_client_ping(c.c(), -1, b.c) })
}

// order makes a call, about a lock or nil, that blocks its thread, when there are not too many of them. The call goes on when
// ctx ends before it.
func (c *Client) order(ctx context.Context, l *Lock, f func(b *box) C.dlock_status) error {
	if err := l.ended(ctx, ErrCancelled, ErrTimedOut); err != nil {
		return err
	}
	if c.c() == nil {
		return invalid("it comes from no client")
	}
	select {
	case c.core.orders <- struct{}{}:
	case <-ctx.Done():
		return l.ended(ctx, ErrCancelled, ErrTimedOut)
	}
	answer := make(chan error, 1)
	go func() {
		b := blockingBox()
		answer <- b.done(f(b), [...]any{c, l})
		<-c.core.orders
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return l.ended(ctx, ErrUnknownOutcome, ErrUnknownOutcome)
	}
}

// alone makes a call that blocks its thread for one round trip, which is faster than an event. It makes none, and returns
// false, when another goroutine is doing that or the server has been slow of late: a context cannot end such a call.
func (c *core) alone(f func() error) (bool, error) {
	start := time.Since(epoch)
	if int64(start) < c.slowUntil.Load() || !c.inline.TryLock() {
		return false, nil
	}
	defer c.inline.Unlock()
	err := f()
	if took := time.Since(epoch) - start; took > slow {
		c.slowUntil.Store(int64(start + 10*took))
	}
	return true, err
}

// ---- events

// descriptor is a duplicate of the library's, for the runtime to wait on. Nobody reads from it.
func (c *core) descriptor() (*os.File, error) {
	var fd C.int32_t
	b := quickBox()
	if err := b.done(C.dlock_client_fd(c.handle, &fd, b.c), nil); err != nil {
		return nil, err
	}
	own, _, err := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if err != 0 {
		return nil, &Error{Status: ErrSystemError, Message: "no descriptor for events", cause: err}
	}
	return os.NewFile(own, "libdlock events"), nil
}

// read hands out events until the client is closed or dropped.
func (c *core) read(file *os.File) {
	box := C.dlock_event_new()
	if conn, err := file.SyscallConn(); err == nil && box != nil {
		_ = conn.Read(func(uintptr) bool { return c.drain(box) }) // an error: the file was closed
	}
	C.dlock_event_free(box)
	file.Close()
	c.end()
	close(c.events)
	close(c.done)
}

// drain hands out the events there are, and returns whether they were the last ones.
func (c *core) drain(box *C.dlock_event) bool {
	for {
		switch C.dlock_client_next(c.handle, 0, box, nil) {
		case C.DLOCK_OK:
			c.dispatch(box)
		case C.DLOCK_NO_EVENT:
			return false
		default:
			return true
		}
	}
}

func (c *core) dispatch(box *C.dlock_event) {
	f := unpack(box)
	c.mutex.Lock()
	g := c.grants[int64(f[C.DLOCK_FIELD_OWNER])]
	c.mutex.Unlock()
	var err error
	if f[C.DLOCK_FIELD_STATUS] != C.DLOCK_OK {
		err = &Error{Status: Status(f[C.DLOCK_FIELD_STATUS]), Message: C.GoString(C.dlock_event_text(box))}
	}
	switch f[C.DLOCK_FIELD_TYPE] {
	case C.DLOCK_EVENT_ACQUIRED, C.DLOCK_EVENT_ACQUIRE_FAILED:
		if g != nil {
			g.settle(int64(f[C.DLOCK_FIELD_TOKEN]), err)
		}
	case C.DLOCK_EVENT_RELEASED, C.DLOCK_EVENT_RELEASE_FAILED:
		if g != nil {
			g.gone(err)
		}
	default:
		if g != nil && f[C.DLOCK_FIELD_TYPE] == C.DLOCK_EVENT_LOST {
			g.lose(err)
		}
		c.publish(f, g, C.GoString(C.dlock_event_text(box)))
	}
}

// unpack is the numbers of an event.
func unpack(box *C.dlock_event) *[C.DLOCK_FIELD_COUNT]C.int64_t {
	f := new([C.DLOCK_FIELD_COUNT]C.int64_t)
	C.dlock_event_unpack(box, &f[0], C.DLOCK_FIELD_COUNT, nil, nil)
	return f
}

// end tells everybody who waits for an event that none will come.
func (c *core) end() {
	c.mutex.Lock()
	left := c.grants
	c.grants, c.ended = nil, true
	c.mutex.Unlock()
	for _, g := range left {
		closed := g.lock.failure(ErrClosed)
		g.settle(0, closed)
		g.lose(closed)
		g.gone(closed)
	}
}

// enter gives g an owner number, by which events find it.
func (c *core) enter(g *Grant) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.ended {
		return g.lock.failure(ErrClosed)
	}
	c.owners++
	g.owner = c.owners
	c.grants[g.owner] = g
	return nil
}

func (c *core) leave(g *Grant) {
	c.mutex.Lock()
	delete(c.grants, g.owner)
	c.mutex.Unlock()
}
