//go:build cgo

package dlock

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"
)

const (
	closeTimeout = 5 * time.Second // how long Close waits for the server
	eventRoom    = 128
)

// A Client has the connections to the servers of one URL, made on first use, and a watchdog that renews held locks. Any number
// of goroutines may use it. Do not copy it. Close it after use; the garbage collector closes a Client that is dropped while
// nothing is held or waited for.
type Client struct{ core *core }

// Open makes a client from a URL, which has one of these forms:
//
//	redis://[user[:password]@]host[:port][/db][?option=value&...]
//	redis+unix://[user[:password]@]/path[?...]
//	redis+sentinel://[user[:password]@]host[:port][,...]/service[/db][?...]
//	redis+cluster://[user[:password]@]host[:port][,...][?...]
//	redis+quorum://[user[:password]@]host[:port][,...][/db][?...]
//	memory:[?...], memory://name[?...]
//
// Write rediss in place of redis for TLS. The options override those in the URL. Open does not connect, unless the option
// checks asks for it; then it blocks a thread meanwhile. To connect, call Ping.
//
// ErrInvalidURL, ErrUnknownOption, ErrInvalidOption, ErrInvalidQuorum, ErrUnsupported, ErrInvalidArgument for a NUL,
// ErrOutOfMemory, ErrSystemError. With checks=refuse also ErrUnfit and the errors of Ping.
func Open(url string, options ...Option) (*Client, error) {
	if version() < oldest {
		message := "libdlock " + Version() + " was loaded, which is too old for this binding"
		return nil, &Error{Status: ErrUnsupported, Message: message}
	}
	set, err := newSet(options)
	if err != nil {
		return nil, err
	}
	handle, err := clientOpen(url, set)
	if err != nil {
		return nil, err
	}
	file, err := handle.descriptor()
	if err != nil {
		return nil, err
	}
	client := &Client{newCore(handle)}
	client.core.events = make(chan Event, eventRoom)
	go client.core.read(file)
	runtime.SetFinalizer(client, func(*Client) { file.Close() }) // ends read
	return client, nil
}

// Version returns the version of the loaded library, for example "0.1.0".
func Version() string { return versionString() }

// orNone returns the client, or one without a handle when Open did not make it: the library then returns an error. Lock and
// Grant have the same method.
func (c *Client) orNone() *Client {
	if c == nil || c.core == nil {
		return &Client{newCore(nil)}
	}
	return c
}

// Close ends all waits with ErrClosed, cancels the contexts of all grants, releases all locks, and stops. It waits up to five
// seconds for the server, and blocks a thread meanwhile. After ErrTimedOut the remaining locks expire with their leases;
// permits of a Semaphore have no lease and stay taken until ReclaimPermits. Close may be called again.
func (c *Client) Close() error {
	core := c.orNone().core
	for _, one := range core.close() {
		if g, held := one.(*Grant); held {
			g.closed() // before others can have the lock
		}
	}
	return core.handle.close(closeTimeout.Milliseconds())
}

// A Finding is one result of Client.Check.
type Finding struct {
	Name   string // for example "EVICTION"
	Danger bool   // locks fail, or may be lost while the server runs; else guarantees are weaker than they could be
	Text   string // a sentence with advice
}

// Check checks whether the server is fit to keep locks. ErrUnreachable, ErrDenied and the ErrServer statuses.
func (c *Client) Check(ctx context.Context) ([]Finding, error) {
	c = c.orNone()
	_, err := c.request(ctx, unknown, func(tag int64) error { return c.core.handle.submitCheck(-1, tag) })
	var found []Finding
	for event := eventNew(); err == nil; {
		if err = c.core.handle.finding(len(found), event); err == nil {
			said := event.read()
			found = append(found, Finding{findingName(int32(said.Value)), said.Cause == severityDanger, said.text})
		}
	}
	if errors.Is(err, ErrNoEvent) { // after the last one
		err = nil
	}
	return found, err
}

// request is Lock.request for requests without a lock.
func (c *Client) request(ctx context.Context, late outcome, f func(int64) error, then ...func(answer, bool)) (answer, error) {
	return (&Lock{client: c}).request(ctx, late, f, then...)
}

// Fault makes something go wrong, for a test: package dlocktest has a method for each word. name is that of a lock, or "";
// ms is the value of the fault, where -1 means until "heal". Only a client of memory: does it, others return
// ErrUnsupported. ErrInvalidArgument, ErrInvalidName, ErrNotHeld, ErrNotFound.
func (c *Client) Fault(what, name string, ms int64) error {
	return c.orNone().core.handle.fault(what, name, ms)
}

// Stats returns the counters of the client.
func (c *Client) Stats() (Stats, error) { return c.orNone().core.handle.stats() }

// Metrics returns the counters and histograms of the client as OpenMetrics text. It never blocks. The module
// bindings/go/metrics has a collector for Prometheus.
func (c *Client) Metrics() (string, error) {
	for room := 32768; ; room *= 2 {
		buffer := make([]byte, room)
		size, err := c.orNone().core.handle.metrics(buffer)
		if !errors.Is(err, ErrBufferTooSmall) {
			return string(buffer[:size]), err
		}
	}
}

// Vars is the counters of a client as a variable of package expvar: expvar.Publish("dlock", client.Vars()).
type Vars struct{ client *Client }

// Vars returns what expvar.Publish takes.
func (c *Client) Vars() Vars { return Vars{c} }

// String returns the counters as JSON, or null when the client has none.
func (v Vars) String() string {
	stats, err := v.client.Stats()
	if err != nil {
		return "null"
	}
	text, _ := json.Marshal(stats) // numbers alone: it does not fail
	return string(text)
}

// An Event reports something that happened to a client, for logs and dashboards. To learn that a lock was lost, use
// Grant.Context.
type Event struct {
	Type      EventType
	Lock      string        // the name; "" in a log line
	Token     int64         // of the grant
	Remaining time.Duration // EventAtRisk: for how long the lock is still held
	Cause     Cause         // EventLost
	Status    Status        // EventLog: the failure
	Text      string        // one sentence
}

// Events returns the channel of the client's events. Close of the client closes it. When 128 events wait, further ones are
// dropped.
func (c *Client) Events() <-chan Event { return c.orNone().core.events }

// ---- options

// An Option changes how a client or a lock behaves. A lock's options override those of its client.
type Option struct{ name, value string }

// Set sets any option of the library from text: Set("safety_ms", "500"). The library's manual lists them.
func Set(name, value string) Option { return Option{name, value} }

// newSet makes a set of options for the library.
func newSet(options []Option) (*cOptions, error) {
	set := optionsNew()
	for _, option := range options {
		if err := set.set(option.name, option.value); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// milliseconds rounds up; everything negative is -1.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return int64(d) >> 63
	}
	return int64((d-1)/time.Millisecond) + 1
}

// duration converts a time of the library; -1 (unknown) becomes 0.
func duration(ms int64) time.Duration {
	if ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
