//go:build cgo

package dlock

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// core is the part of a client that the goroutine that reads events uses. It refers to the Client only through held grants and
// requests that wait for an answer, so that a dropped Client can be collected.
type core struct {
	handle *cClient
	events chan Event

	mutex sync.Mutex // guards what follows
	last  int64      // the last owner number or tag given out
	known map[int64]caller
	shut  bool // enter refuses
}

// A caller is the subject of an event: a grant, found by its owner number, or a request, found by its tag.
type caller interface {
	closed() // no more events will arrive
}

func newCore(handle *cClient) *core {
	return &core{handle: handle, known: map[int64]caller{}}
}

// ---- requests and their answers

// A request is answered once. Its lock keeps the client alive until then.
type request struct {
	lock   *Lock
	tag    int64
	answer chan answer
	over   atomic.Bool                  // it was answered, or nobody waits for it any more
	then   func(a answer, waiting bool) // called first with the answer; may be nil
}

type answer struct {
	fields
	text string
	data []byte
	err  error
}

func (k *request) settle(a answer) {
	waiting := !k.over.Swap(true)
	if k.then != nil {
		k.then(a, waiting)
	}
	if waiting {
		k.answer <- a
	}
}

func (k *request) closed() { k.settle(answer{err: k.lock.failure(ErrClosed)}) }

// wait returns the answer. When ctx ends before it arrives, the outcome of the request is late.
func (k *request) wait(ctx context.Context, late outcome) answer {
	select {
	case a := <-k.answer:
		return a
	case <-ctx.Done():
		if k.over.Swap(true) { // it arrived just now
			return <-k.answer
		}
		return answer{err: k.lock.ended(ctx, late)}
	}
}

// submit makes a request. asks returns true when an event will answer; else it has written the answer to a.
func (l *Lock) submit(asks func(tag int64, a *answer) bool, then func(answer, bool)) *request {
	c, k, a := l.client.core, &request{lock: l, answer: make(chan answer, 1), then: then}, answer{}
	if a.err = c.enter(l, k, &k.tag); a.err == nil {
		if asks(k.tag, &a) || !c.leave(k.tag) { // the client has ended and settled the request
			return k
		}
	}
	k.settle(a)
	return k
}

// request makes a request and waits for the answer. When ctx ends before it arrives, the request goes on, and its outcome is late.
func (l *Lock) request(ctx context.Context, late outcome, f func(int64) error, then ...func(answer, bool)) (answer, error) {
	if err := l.ended(ctx, undone); err != nil {
		return answer{}, err
	}
	a := l.submit(func(tag int64, a *answer) bool {
		a.err = f(tag)
		return a.err == nil
	}, append(then, nil)[0]).wait(ctx, late)
	if a.err != nil {
		return answer{}, a.err
	}
	return a, nil
}

// enter gives a grant or a request a number by which events find it.
func (c *core) enter(l *Lock, one caller, number *int64) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.shut {
		return l.failure(ErrClosed)
	}
	c.last++
	*number = c.last
	c.known[c.last] = one
	return nil
}

// leave removes a number. Only the caller that gets true may settle the request.
func (c *core) leave(number int64) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	_, known := c.known[number]
	delete(c.known, number)
	return known
}

// ---- events

// descriptor returns a duplicate of the library's descriptor for the runtime to wait on. Nobody reads from it.
func (client *cClient) descriptor() (*os.File, error) {
	fd, err := client.fd()
	if err != nil {
		return nil, err
	}
	own, _, failed := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if failed != 0 {
		return nil, &Error{Status: ErrSystemError, Message: "no descriptor for events", cause: failed}
	}
	return os.NewFile(own, "libdlock events"), nil
}

// read dispatches events until the client is closed or dropped.
func (c *core) read(file *os.File) {
	event := eventNew()
	if conn, err := file.SyscallConn(); err == nil && event != nil {
		_ = conn.Read(func(uintptr) bool { // fails when the file was closed
			for {
				if err := c.handle.next(0, event); err != nil {
					return !errors.Is(err, ErrNoEvent)
				}
				c.dispatch(event.read())
			}
		})
	}
	file.Close()
	c.end()
	close(c.events)
}

// read returns the contents of an event.
func (event *cEvent) read() (a answer) {
	a.fields, _ = event.unpack()
	a.text = event.text()
	if a.LockID < 0 && a.Value > 0 {
		a.data = make([]byte, a.Value)
		_, _ = event.data(a.data)
	}
	if a.Status != 0 {
		a.err = &Error{Status: Status(a.Status), Message: a.text}
	}
	return a
}

func (c *core) dispatch(a answer) {
	c.mutex.Lock()
	g, _ := c.known[a.Owner].(*Grant)
	k, _ := c.known[a.Tag].(*request)
	c.mutex.Unlock()
	event := Event{EventType(a.Type), "", 0, duration(a.RemainingMs), Cause(a.Cause), Status(a.Status), a.text}
	switch news := event.Type == EventAtRisk || event.Type == EventLost; {
	case event.Type == EventLog:
		offer(c.events, event)
	case news && g != nil: // each member of a multi-lock reports its loss: only the first one counts
		if event.Type == EventLost {
			g.lose(a.err)
		}
		event.Lock, event.Token = g.lock.name, a.Token
		if all := g.token.Load(); all > a.Token { // the largest token of the members
			event.Token = all
		}
		offer(c.events, event)
	case !news && k != nil:
		c.leave(a.Tag)
		k.settle(a)
	}
}

// close makes enter refuse, and returns the callers that there are.
func (c *core) close() map[int64]caller {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.shut = true
	there := map[int64]caller{}
	for number, one := range c.known {
		there[number] = one
	}
	return there
}

// end tells all callers that no event will arrive.
func (c *core) end() {
	for number, one := range c.close() {
		if c.leave(number) {
			one.closed()
		}
	}
}
