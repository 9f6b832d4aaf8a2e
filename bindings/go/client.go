package dlock

// #cgo pkg-config: dlock
// #include <dlock.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	oldest       = 0<<16 | 1<<8          // the version of libdlock whose calls are used here
	closeTimeout = 5 * time.Second       // how long Close waits for the server
	orders       = 4                     // calls like Ping that block a thread each at the same time
	slow         = 20 * time.Millisecond // a round trip that blocks a thread for longer than it should
	eventRoom    = 256
)

// A Client has the connections to one server, made on first use, and a watchdog that renews what is held. Any number of
// goroutines may use it. It is closed by Close; one that is dropped while it holds and waits for nothing goes with the
// garbage.
type Client struct{ core *core }

// core is what the goroutine that reads events knows of a client. It does not refer to the Client, unless by a grant that
// is held or waited for.
type core struct {
	handle *C.dlock_client
	orders chan struct{}
	done   chan struct{} // closed when no more events are read

	inline    sync.Mutex // held by the goroutine that makes a round trip on its own thread
	slowUntil int64      // no such round trips before, nanoseconds, atomic

	mutex  sync.Mutex       // guards what follows
	owners int64            // the last one given out
	grants map[int64]*Grant // by owner
	events chan Event
	ended  bool
}

// Open makes a client from a URL, redis://[user[:password]@]host[:port][/db][?option=value&...] or
// redis+unix:///path[?...]. It connects nothing yet; Ping does.
//
// ErrInvalidURL, ErrUnknownOption, ErrInvalidOption, ErrUnsupported.
func Open(url string, options ...Option) (*Client, error) {
	if C.dlock_version() < oldest {
		return nil, failure(ErrUnsupported, "the library that was loaded is libdlock "+Version()+", too old for this binding")
	}
	address, err := text(url, "URL")
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(address))
	c := &core{orders: make(chan struct{}, orders), done: make(chan struct{}), grants: map[int64]*Grant{}}
	err = withOptions(options, func(set *C.dlock_options) error {
		return call(func(box *C.dlock_error) C.dlock_status { return C.dlock_client_open(address, set, &c.handle, box) })
	})
	if err != nil {
		return nil, err
	}
	file, err := c.descriptor()
	if err != nil {
		C.dlock_client_free(c.handle)
		return nil, err
	}
	go c.read(file)
	client := &Client{c}
	runtime.SetFinalizer(client, func(client *Client) {
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

// live returns the core of a client that Open made.
func (c *Client) live() (*core, error) {
	if c == nil || c.core == nil {
		return nil, invalid("a client comes from Open")
	}
	return c.core, nil
}

// call makes a call of the library with the client's handle.
func (c *Client) call(f func(handle *C.dlock_client, box *C.dlock_error) C.dlock_status) error {
	core, err := c.live()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(c)
	return call(func(box *C.dlock_error) C.dlock_status { return f(core.handle, box) })
}

// Close ends all waits with ErrClosed, releases what is held and stops. It waits up to five seconds for the server:
// after ErrTimedOut what is left expires by its lease. Closing again is fine.
func (c *Client) Close() error {
	return c.call(func(handle *C.dlock_client, box *C.dlock_error) C.dlock_status {
		return C.dlock_client_close(handle, C.int64_t(closeTimeout/time.Millisecond), box)
	})
}

// Ping asks the server for a sign of life. ErrUnreachable, ErrDenied and the ErrServer statuses.
func (c *Client) Ping(ctx context.Context) error {
	core, err := c.live()
	if err != nil {
		return err
	}
	return core.order(ctx, func() error {
		return c.call(func(handle *C.dlock_client, box *C.dlock_error) C.dlock_status {
			return C.dlock_client_ping(handle, -1, box)
		})
	})
}

// order makes a call that blocks its thread, when there are not too many of them. The call goes on when ctx ends before it.
func (c *core) order(ctx context.Context, f func() error) error {
	if err := ended(ctx, ErrCancelled, ErrTimedOut); err != nil {
		return err
	}
	select {
	case c.orders <- struct{}{}:
	case <-ctx.Done():
		return ended(ctx, ErrCancelled, ErrTimedOut)
	}
	answer := make(chan error, 1)
	go func() {
		answer <- f()
		<-c.orders
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ended(ctx, ErrUnknownOutcome, ErrUnknownOutcome)
	}
}

// alone makes a call that blocks its thread for one round trip, which is faster than an event, when no other goroutine
// does. It returns false, and makes no call, when one does or when the server has been slow of late: a context cannot end
// such a call.
func (c *core) alone(f func() error) (bool, error) {
	start := time.Now()
	if start.UnixNano() < atomic.LoadInt64(&c.slowUntil) || !c.inline.TryLock() {
		return false, nil
	}
	defer c.inline.Unlock()
	err := f()
	if took := time.Since(start); took > slow {
		atomic.StoreInt64(&c.slowUntil, start.Add(10*took).UnixNano())
	}
	return true, err
}

// ---- events

// descriptor returns a duplicate of the library's descriptor that the runtime waits for. It is never read.
func (c *core) descriptor() (*os.File, error) {
	var fd C.int32_t
	if err := call(func(box *C.dlock_error) C.dlock_status { return C.dlock_client_fd(c.handle, &fd, box) }); err != nil {
		return nil, err
	}
	syscall.ForkLock.RLock()
	own, err := syscall.Dup(int(fd))
	if err == nil {
		syscall.CloseOnExec(own)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, failure(ErrSystemError, "no descriptor for events: "+err.Error())
	}
	return os.NewFile(uintptr(own), "libdlock events"), nil
}

// read hands out events until the client is closed or dropped.
func (c *core) read(file *os.File) {
	box := C.dlock_event_new()
	if conn, err := file.SyscallConn(); err == nil && box != nil {
		conn.Read(func(uintptr) bool { return c.drain(box) }) // ends by CLOSED, or because the file was closed
	}
	C.dlock_event_free(box)
	file.Close()
	c.end()
	close(c.done)
}

// drain hands out the events there are. It returns whether they were the last ones.
func (c *core) drain(box *C.dlock_event) bool {
	var f [C.DLOCK_FIELD_COUNT]C.int64_t
	for {
		switch C.dlock_client_next(c.handle, 0, box, nil) {
		case C.DLOCK_OK:
			C.dlock_event_unpack(box, &f[0], C.DLOCK_FIELD_COUNT, nil, nil)
			c.dispatch(&f, box)
		case C.DLOCK_NO_EVENT:
			return false
		default:
			return true
		}
	}
}

func (c *core) dispatch(f *[C.DLOCK_FIELD_COUNT]C.int64_t, box *C.dlock_event) {
	c.mutex.Lock()
	g := c.grants[int64(f[C.DLOCK_FIELD_OWNER])]
	c.mutex.Unlock()
	var err error
	if f[C.DLOCK_FIELD_STATUS] != C.DLOCK_OK {
		err = failure(Status(f[C.DLOCK_FIELD_STATUS]), C.GoString(C.dlock_event_text(box)))
	}
	switch kind := EventType(f[C.DLOCK_FIELD_TYPE]); {
	case g != nil && (kind == C.DLOCK_EVENT_ACQUIRED || kind == C.DLOCK_EVENT_ACQUIRE_FAILED):
		g.settle(int64(f[C.DLOCK_FIELD_TOKEN]), err)
	case g != nil && (kind == C.DLOCK_EVENT_RELEASED || kind == C.DLOCK_EVENT_RELEASE_FAILED):
		g.gone(err)
	case kind == Lost || kind == AtRisk || kind == Log:
		if g != nil && kind == Lost {
			g.lose(err)
		}
		c.publish(f, g, C.GoString(C.dlock_event_text(box)))
	}
}

// end tells everybody who waits for an event that there will be none.
func (c *core) end() {
	c.mutex.Lock()
	c.ended = true
	if c.events != nil {
		close(c.events)
	}
	left := c.grants
	c.grants = nil
	c.mutex.Unlock()
	for _, g := range left {
		closed := failure(ErrClosed, "")
		g.settle(0, closed)
		g.lose(closed)
		g.gone(closed)
	}
}

// enter gives g an owner number and lets events find it.
func (c *core) enter(g *Grant) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.ended {
		return failure(ErrClosed, "")
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
