// Package dlocktest is for tests of programs that use locks: locks in memory, and faults on demand. No server is needed.
//
//	memory := dlocktest.New(t)
//	client, err := dlock.Open(memory.URL)
//	... // the program holds the lock "sale"
//	memory.Lose("sale")
//
// Everything here is for the process that uses it: other processes have other locks.
package dlocktest

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// Forever is the length of a fault that lasts until Heal.
const Forever time.Duration = -1

// Memory has locks in memory, for one test. Give URL to the program. Client is the test's own client of that URL. The
// faults are those of the program: of all other clients that have opened the URL by then. A fault that cannot be done ends
// the test.
type Memory struct {
	URL    string
	Client *dlock.Client
	t      testing.TB
}

var number int64

// New makes locks in memory. At the end of the test all faults end, and Client is closed.
func New(t testing.TB, options ...dlock.Option) *Memory {
	t.Helper()
	url := fmt.Sprintf("memory://dlocktest-%d-%d", os.Getpid(), atomic.AddInt64(&number, 1))
	client, err := dlock.Open(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	m := &Memory{url, client, t}
	t.Cleanup(func() {
		if err := client.Fault("heal", "", 0); err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *Memory) do(what, name string, value time.Duration) {
	m.t.Helper()
	ms := value.Milliseconds()
	if value == Forever {
		ms = -1
	}
	if err := m.Client.Fault(what, name, ms); err != nil {
		m.t.Fatal(err)
	}
}

// Lose makes whoever holds the lock lose it now. The holder is told, and the lock passes on.
func (m *Memory) Lose(name string) { m.t.Helper(); m.do("lose", name, 0) }

// FailRenewals lets renewals fail for a time: of this lock, or of all with the name "".
func (m *Memory) FailRenewals(name string, lasts time.Duration) {
	m.t.Helper()
	m.do("renewals others", name, lasts)
}

// Deny refuses requests with ErrDenied for a time: for this lock, or for all with the name "".
func (m *Memory) Deny(name string, lasts time.Duration) {
	m.t.Helper()
	m.do("deny others", name, lasts)
}

// Cut lets no request and no message through for a time.
func (m *Memory) Cut(lasts time.Duration) { m.t.Helper(); m.do("cut others", "", lasts) }

// Pause answers nothing for a time, to no client.
func (m *Memory) Pause(lasts time.Duration) { m.t.Helper(); m.do("pause", "", lasts) }

// Delay makes each request take so long. 0 ends it.
func (m *Memory) Delay(by time.Duration) { m.t.Helper(); m.do("delay others", "", by) }

// Jump moves the clock of the store forward, or back when by is negative. Leases end sooner, or later.
func (m *Memory) Jump(by time.Duration) {
	m.t.Helper()
	if err := m.Client.Fault("clock", "", by.Milliseconds()); err != nil {
		m.t.Fatal(err)
	}
}

// Heal ends all faults of all clients. A clock stays where it is.
func (m *Memory) Heal() { m.t.Helper(); m.do("heal", "", 0) }
