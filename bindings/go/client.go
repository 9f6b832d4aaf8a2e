package dlock

import (
	"context"
	"errors"
	"runtime"
	"time"
)

const (
	closeTimeout = 5 * time.Second // how long Close waits for the server
	eventRoom    = 128
)

// A Client has the connections to one server, made on first use, and a watchdog that renews what is held. Any number of
// goroutines may use it, but it is not to be copied. Close it; one that is dropped while nothing is held or waited for goes
// with the garbage.
type Client struct{ core *core }

// Open makes a client from a URL: redis://[user[:password]@]host[:port][/db][?option=value&...],
// redis+unix://[user[:password]@]/path[?...], redis+sentinel://[user[:password]@]host[:port][,...]/service[/db][?...], or
// redis+cluster:// and redis+quorum:// with several hosts; rediss in place of redis for TLS. Options win over those in the URL.
// Nothing is connected yet, unless the option checks wants that, which blocks a thread meanwhile; Ping does it.
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
	runtime.SetFinalizer(client, func(*Client) { file.Close() }) // ends the reading
	return client, nil
}

// Version returns the version of the loaded library, for example "0.1.0".
func Version() string { return versionString() }

// orNone is the client, or one without a handle when Open did not make it: the library says that. Locks that no client made,
// and grants that no lock made, are likewise.
func (c *Client) orNone() *Client {
	if c == nil || c.core == nil {
		return &Client{newCore(nil)}
	}
	return c
}

// Close ends all waits with ErrClosed and the contexts of all grants, releases what is held, and stops. It waits up to five
// seconds for the server, and blocks a thread meanwhile; after ErrTimedOut what is left expires by its lease, but permits of
// a Semaphore, which have none, stay taken until ReclaimPermits. Closing again is fine.
func (c *Client) Close() error {
	core := c.orNone().core
	for _, one := range core.close() {
		if g, held := one.(*Grant); held {
			g.closed() // before others can have the lock
		}
	}
	return core.handle.close(closeTimeout.Milliseconds())
}

// Finding is what a look at the server found: a name, EVICTION say; whether locks fail or may be lost while the server runs,
// or less is promised than could be; and a sentence with advice.
type Finding struct {
	Name   string
	Danger bool
	Text   string
}

// Check looks whether the server is fit to keep locks. ErrUnreachable, ErrDenied and the ErrServer statuses.
func (c *Client) Check(ctx context.Context) ([]Finding, error) {
	c = c.orNone()
	_, err := c.ask(ctx, unknown, func(tag int64) error { return c.core.handle.submitCheck(-1, tag) })
	var found []Finding
	for event := eventNew(); err == nil; {
		if err = c.core.handle.finding(len(found), event); err == nil {
			said := event.read()
			found = append(found, Finding{findingName(int32(said.Value)), said.Cause == severityDanger, said.text})
		}
	}
	if errors.Is(err, ErrNoEvent) { // behind the last one
		err = nil
	}
	return found, err
}

// ask is Lock.ask for what needs no lock.
func (c *Client) ask(ctx context.Context, late outcome, f func(int64) error, then ...func(answer, bool)) (answer, error) {
	return (&Lock{client: c}).ask(ctx, late, f, then...)
}

// Stats returns the counters of the client.
func (c *Client) Stats() (Stats, error) { return c.orNone().core.handle.stats() }

// An Event is news of a client, for logs and dashboards. Who holds a lock hears of its loss by Grant.Context.
type Event struct {
	Type      EventType
	Lock      string        // the name; "" in a log line
	Token     int64         // of the grant
	Remaining time.Duration // EventAtRisk: for how long the lock is still held
	Cause     Cause         // EventLost
	Status    Status        // EventLog: what the trouble is
	Text      string        // one sentence
}

// Events returns the channel of the client's news, which is closed when the client is. When 128 events wait, more are dropped.
func (c *Client) Events() <-chan Event { return c.orNone().core.events }

// ---- options

// An Option changes how a client or a lock behaves. A lock's options win over its client's.
type Option struct{ name, value string }

// Set sets any option of the library from text: Set("safety_ms", "500"). The library's manual lists them.
func Set(name, value string) Option { return Option{name, value} }

// newSet is a set of options for the library.
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

// duration is a time of the library's; -1, which is unknown there, is 0.
func duration(ms int64) time.Duration {
	if ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
