package dlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// exclusive are the kinds with one holder at a time, each made for a client.
func exclusive(t testing.TB) map[string]func(client *Client, name string) *Lock {
	must := func(lock *Lock, err error) *Lock {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	return map[string]func(*Client, string) *Lock{
		"mutex": func(c *Client, name string) *Lock { return must(c.Mutex(name)) },
		"fair":  func(c *Client, name string) *Lock { return must(c.FairMutex(name)) },
		"write": func(c *Client, name string) *Lock { return must(c.WriteLock(name)) },
		"multi": func(c *Client, name string) *Lock {
			return must(c.MultiLock(must(c.Mutex(name+"-1")), must(c.FairMutex(name+"-2"))))
		},
		"semaphore of one": func(c *Client, name string) *Lock {
			s, err := c.Semaphore(name)
			if err == nil {
				_ = s.SetPermits(background, 1)
			}
			return must((*Lock)(s), err)
		},
		"permit semaphore of one": func(c *Client, name string) *Lock {
			s, err := c.PermitSemaphore(name)
			if err == nil {
				_ = s.SetPermits(background, 1)
			}
			return must((*Lock)(s), err)
		},
	}
}

func TestExclusiveKinds(t *testing.T) {
	for kind, newLock := range exclusive(t) {
		kind, newLock := kind, newLock
		t.Run(kind, func(t *testing.T) {
			s := own(t)
			client, other := open(t, s), open(t, s)
			lock, theirs := newLock(client, "kind"), newLock(other, "kind")
			grant := held(t, lock)
			if grant.Token() <= 0 || grant.Err() != nil {
				t.Fatal(grant.Token(), grant.Err())
			}
			for _, l := range []*Lock{lock, theirs} {
				_, err := l.TryLock(background)
				want(t, err, ErrBusy)
				_, err = l.LockWithin(background, 20*time.Millisecond)
				want(t, err, ErrTimedOut)
				ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
				_, err = l.Lock(ctx)
				want(t, err, ErrTimedOut, context.DeadlineExceeded)
				cancel()
			}
			unlock(t, grant)
			last, inside := grant.Token(), int64(0)
			parallel(20, func(i int) {
				l := lock
				if i%2 == 0 {
					l = theirs
				}
				for n := 0; n < 5; n++ {
					grant, err := l.LockWithin(background, while)
					if err != nil {
						t.Error(err)
						return
					}
					if atomic.AddInt64(&inside, 1) != 1 || grant.Token() <= last {
						t.Error("two inside, or token", grant.Token(), "after", last)
					}
					last = grant.Token()
					atomic.AddInt64(&inside, -1)
					if err := grant.Unlock(background); err != nil {
						t.Error(err)
					}
				}
			})
			idle(t, client)
			idle(t, other)
		})
	}
}

// TestShortestWait: a wait that ends during the first round trip is timed out, not busy. A wait of 0 is a try.
func TestShortestWait(t *testing.T) {
	for kind, newLock := range exclusive(t) {
		s := own(t)
		grant := held(t, newLock(open(t, s), "short"))
		for _, poll := range []string{"10000", "0"} { // answered at once, then by events
			lock := newLock(open(t, s, Set("busy_poll_us", poll)), "short")
			for _, wait := range []time.Duration{1, time.Microsecond, time.Millisecond} {
				if _, err := lock.LockWithin(background, wait); !errors.Is(err, ErrTimedOut) {
					t.Errorf("%s, %v, busy_poll_us %s: %v", kind, wait, poll, err)
				}
			}
			_, err := lock.LockWithin(background, 0)
			want(t, err, ErrBusy)
		}
		unlock(t, grant)
	}
	latch, err := open(t, own(t)).Latch("short latch")
	want(t, err)
	want(t, latch.SetCount(background, 1))
	want(t, latch.WaitWithin(background, 1), ErrTimedOut)
	want(t, latch.WaitWithin(background, 0), ErrBusy)
}

func TestReadersAndWriters(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	read, err := client.ReadLock("rw")
	want(t, err)
	read2, err := other.ReadLock("rw")
	want(t, err)
	write, err := other.WriteLock("rw")
	want(t, err)
	one, two, three := held(t, read), held(t, read), held(t, read2)
	_, err = write.TryLock(background)
	want(t, err, ErrBusy)
	unlock(t, one)
	unlock(t, two)
	unlock(t, three)
	alone := held(t, write)
	_, err = read.TryLock(background)
	want(t, err, ErrBusy)
	unlock(t, alone)
	unlock(t, held(t, read))
}

func TestSemaphores(t *testing.T) {
	client := open(t, shared)
	plain, err := client.Semaphore("plain", Permits(2))
	if err != nil {
		t.Fatal(err)
	}
	leased, err := client.PermitSemaphore("leased", Permits(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Semaphore{plain, leased} {
		if err := s.SetPermits(background, 5); err != nil {
			t.Fatal(err)
		}
		want(t, s.SetPermits(background, 9), ErrUnchanged)
		one, err := s.Acquire(background)
		if err != nil || one.Err() != nil {
			t.Fatal(err, one)
		}
		two, err := s.AcquireWithin(background, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.TryAcquire(background)
		want(t, err, ErrBusy)
		if n, err := s.AvailablePermits(background); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := s.AddPermits(background, 1); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		three, err := s.TryAcquire(background)
		if err != nil {
			t.Fatal(err)
		}
		for _, grant := range []*Grant{one, two, three} {
			id, err := grant.PermitID(1)
			if s == leased && (err != nil || len(id) != 32) {
				t.Fatal(id, err)
			} else if s == plain {
				want(t, err, ErrUnsupported)
			}
			unlock(t, grant)
		}
		_, err = s.AddPermits(expired(), 1)
		want(t, err, ErrCancelled)
		want(t, s.SetPermits(background, -1), ErrInvalidArgument)
	}
	if n, err := plain.DrainPermits(background); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	_, err = leased.DrainPermits(background)
	want(t, err, ErrUnsupported)
	idle(t, client)
}

func TestLatch(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	ours, err := client.Latch("latch")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := other.Latch("latch")
	if err != nil {
		t.Fatal(err)
	}
	want(t, ours.Wait(background)) // it is open
	want(t, ours.SetCount(background, 2))
	want(t, theirs.SetCount(background, 2), ErrUnchanged)
	want(t, ours.WaitWithin(background, 0), ErrBusy)
	want(t, theirs.WaitWithin(background, 20*time.Millisecond), ErrTimedOut)
	var passed int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		parallel(200, func(i int) {
			latch := ours
			if i%2 == 0 {
				latch = theirs
			}
			if err := latch.Wait(background); err != nil {
				t.Error(err)
			}
			atomic.AddInt64(&passed, 1)
		})
	}()
	eventually(t, "all wait", func() bool { return stats(t, client).Waiting+stats(t, other).Waiting == 200 })
	if n, err := theirs.CountDown(background, 1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := ours.Count(background); n != 1 || err != nil || atomic.LoadInt64(&passed) != 0 {
		t.Fatal(n, err, passed)
	}
	if n, err := ours.CountDown(background, 5); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	soon(t, "all pass", done)
	idle(t, client)
	idle(t, other)
}

// foreign is a context of a type that the standard library does not know: each child that is not cancelled has a goroutine
// that waits for its end.
type foreign struct {
	context.Context
	end chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.end }

func (f foreign) Err() error {
	select {
	case <-f.end:
		return context.Canceled
	default:
		return nil
	}
}

// TestLatchesLeaveNothing: after a latch has been passed, the context has no child.
func TestLatchesLeaveNothing(t *testing.T) {
	const n = 100
	client := open(t, shared)
	latch, err := client.Latch("open latch")
	want(t, err)
	parent := foreign{background, make(chan struct{})}
	defer close(parent.end)
	want(t, latch.Wait(background))
	before := runtime.NumGoroutine()
	for i := 0; i < n; i++ {
		want(t, latch.Wait(parent))
		want(t, latch.WaitWithin(parent, while))
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() < before+n })
	idle(t, client)
}

func TestMultiLock(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	a, b := mutex(t, client, "multi-a"), mutex(t, client, "multi-b")
	both, err := client.MultiLock(b, a)
	if err != nil {
		t.Fatal(err)
	}
	grant := held(t, both)
	for _, name := range []string{"multi-a", "multi-b"} {
		_, err := mutex(t, other, name).TryLock(background)
		want(t, err, ErrBusy)
	}
	ctx := grant.Context()
	if err := mutex(t, other, "multi-b").ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	_ = ctx
	_ = grant.Unlock(background)
	unlock(t, held(t, mutex(t, other, "multi-a")))
	var none *Lock
	for _, wrong := range [][]*Lock{nil, {a, none}, {a, mutex(t, other, "multi-c")}} {
		_, err := client.MultiLock(wrong...)
		want(t, err, ErrInvalidArgument)
	}
	_, err = client.MultiLock(a, mutex(t, client, "multi-a"))
	want(t, err, ErrDuplicateName)
}

// TestMultiLockIsLostOnce: there is one event, with the name of the lock, however many members are lost.
func TestMultiLockIsLostOnce(t *testing.T) {
	client := open(t, shared)
	both, err := client.MultiLock(mutex(t, client, "once-a"), mutex(t, client, "once-b"))
	want(t, err)
	token := held(t, both).Token()
	want(t, client.Close())
	lost := 0
	for event := range client.Events() {
		if event.Type == EventLost {
			lost++
		}
		if event.Type == EventLost && (event.Lock != both.Name() || event.Token != token) {
			t.Errorf("%+v", event)
		}
	}
	if lost != 1 {
		t.Error(lost, "events")
	}
}

func TestGates(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	lock, theirs := mutex(t, client, "gate"), mutex(t, other, "gate")
	want(t, lock.OpenGate(background), ErrUnchanged)
	grant := held(t, lock)
	answers := make(chan error)
	const n = 20
	for i := 0; i < n; i++ {
		go func() {
			_, err := theirs.Lock(background)
			answers <- err
		}()
	}
	eventually(t, "all wait", func() bool { return stats(t, other).Waiting == n })
	if err := lock.CloseGate(background, time.Minute); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i++ {
		want(t, <-answers, ErrGateClosed)
	}
	want(t, grant.Err())
	unlock(t, grant)
	_, err := lock.Lock(background)
	want(t, err, ErrGateClosed)
	if err := theirs.OpenGate(background); err != nil {
		t.Fatal(err)
	}
	unlock(t, held(t, lock))
}

// TestZeroKinds: locks that no client made are refused.
func TestZeroKinds(t *testing.T) {
	for _, s := range []*Semaphore{nil, {}} {
		_, err := s.Acquire(background)
		want(t, err, ErrInvalidArgument)
		_, err = s.AvailablePermits(background)
		want(t, err, ErrInvalidArgument)
		want(t, s.SetPermits(background, 1), ErrInvalidArgument)
	}
	for _, l := range []*Latch{nil, {}} {
		want(t, l.Wait(background), ErrInvalidArgument)
		_, err := l.CountDown(background, 1)
		want(t, err, ErrInvalidArgument)
	}
	var client *Client
	for _, f := range []func() error{
		func() error { _, err := client.FairMutex("a"); return err },
		func() error { _, err := client.ReadLock("a"); return err },
		func() error { _, err := client.WriteLock("a"); return err },
		func() error { _, err := client.Semaphore("a"); return err },
		func() error { _, err := client.PermitSemaphore("a"); return err },
		func() error { _, err := client.Latch("a"); return err },
		func() error { _, err := client.MultiLock(); return err },
	} {
		want(t, f(), ErrInvalidArgument)
	}
}

// TestLossOfEveryKind: the server stops; every kind with a lease is lost, and its holders learn of it.
func TestLossOfEveryKind(t *testing.T) {
	t.Parallel()
	s := own(t)
	client := open(t, s, Lease(time.Second))
	var grants []*Grant
	for kind, newLock := range exclusive(t) {
		if kind != "semaphore of one" { // its permits are no leases
			grants = append(grants, held(t, newLock(client, fmt.Sprint("loss-", len(grants)))))
		}
	}
	read, err := client.ReadLock("loss-read")
	want(t, err)
	grants = append(grants, held(t, read), held(t, read))
	s.pause(t)
	for _, grant := range grants {
		soon(t, "it is lost: "+grant.lock.Name(), grant.Context().Done())
		want(t, grant.Err(), ErrLost)
		err := grant.Unlock(background)
		if !errors.Is(err, ErrUnknownOutcome) || !strings.Contains(grant.lock.Name(), "+") { // the other member may be held still
			want(t, err, ErrLost)
		}
	}
	s.resume()
	idle(t, client)
}
