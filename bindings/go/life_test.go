package dlock

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMetricsAndVars(t *testing.T) {
	client := open(t, shared)
	defer client.Close()
	name := fmt.Sprint("dlock ", rand.Int())
	expvar.Publish(name, client.Vars())
	grant := held(t, mutex(t, client, "metrics"))
	for what, want := range map[string]string{
		expvar.Get(name).String():                                    `"Held":1,`,
		func() string { text, _ := client.Metrics(); return text }(): "\ndlock_held 1\n",
	} {
		if !strings.Contains(what, want) {
			t.Errorf("no %q in %s", want, what)
		}
	}
	unlock(t, grant)
	if none := (&Client{}).Vars().String(); none != "null" {
		t.Error(none)
	}
	_, err := (&Client{}).Metrics()
	want(t, err, ErrInvalidArgument)
}

func TestCloseWithWaiters(t *testing.T) {
	const n = 500
	before := runtime.NumGoroutine()
	client, other := open(t, shared), open(t, shared)
	grant, mine := held(t, mutex(t, other, "closing")), held(t, mutex(t, client, "mine"))
	ctx := mine.Context()
	answers := make(chan error, n)
	for i := 0; i < n; i++ {
		go func() {
			lock, err := client.Mutex("closing")
			if err == nil {
				_, err = lock.Lock(background)
			}
			answers <- err
		}()
	}
	eventually(t, "all wait", func() bool { return stats(t, client).Waiting == n })
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i++ {
		want(t, <-answers, ErrClosed)
	}
	soon(t, "closing ends what was held", ctx.Done())
	if err := mine.Err(); !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := mine.Unlock(background); err == nil {
		t.Fatal("unlocked after the end")
	}
	_, err := mutex(t, other, "mine").TryLock(background)
	want(t, err) // Close has released the lock
	if err := client.Close(); err != nil {
		t.Fatal("closing again:", err)
	}
	_, err = client.Mutex("closing")
	want(t, err, ErrClosed)
	want(t, client.Ping(background), ErrClosed)
	for range client.Events() { // until it is closed
	}
	unlock(t, grant)
	other.Close()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// TestCloseEndsContextsFirst: Close cancels the context of a grant before others can have the lock.
func TestCloseEndsContextsFirst(t *testing.T) {
	const n = 100
	for round := 0; round < 10; round++ {
		client, other := open(t, shared), open(t, shared)
		var contexts [n]context.Context
		var theirs [n]*Lock
		for i := range contexts {
			name := fmt.Sprint("handed-", i)
			contexts[i], theirs[i] = held(t, mutex(t, client, name)).Context(), mutex(t, other, name)
		}
		go client.Close()
		parallel(n, func(i int) {
			grant, err := theirs[i].Lock(background)
			if err != nil {
				t.Error(err)
			} else if contexts[i].Err() == nil {
				t.Error("two have", theirs[i].Name())
			}
			_ = grant.Unlock(background)
		})
		if hasCauses {
			want(t, cause(contexts[0]), ErrLost)
		}
	}
}

func TestLockOfAClosedClient(t *testing.T) {
	client := open(t, shared)
	lock := mutex(t, client, "orphan")
	client.Close()
	for range client.Events() { // until it is closed
	}
	for _, f := range []func(context.Context) (*Grant, error){lock.Lock, lock.TryLock} {
		_, err := f(background)
		want(t, err, ErrClosed)
		if !strings.Contains(err.Error(), "orphan") {
			t.Fatal(err)
		}
	}
}

func TestCloseWhileBusy(t *testing.T) {
	for i := 0; i < counts(100, 10); i++ {
		client := open(t, shared)
		go func() {
			time.Sleep(time.Duration(rand.Intn(3000)) * time.Microsecond)
			client.Close()
		}()
		parallel(16, func(i int) {
			lock, err := client.Mutex(fmt.Sprint("busy-", i%4))
			for err == nil {
				var grant *Grant
				if grant, err = lock.Lock(background); err == nil {
					err = grant.Unlock(background)
				}
			}
			if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		})
	}
}

// asked is a context that calls a function when its Done is called.
type asked struct {
	context.Context
	then func()
}

func (a asked) Done() <-chan struct{} {
	a.then()
	return nil
}

// TestEndWhileAsking: the client is closed while a grant is made.
func TestEndWhileAsking(t *testing.T) {
	client := open(t, shared)
	lock := mutex(t, client, "end")
	c := newCore(client.core.handle)
	mine := &Lock{client: &Client{c}, handle: lock.handle, name: lock.name}
	if _, err := mine.newGrant(asked{background, c.end}); err != nil {
		want(t, err, ErrClosed)
	}
	c = newCore(client.core.handle)
	mine.client.core = c
	g, err := mine.newGrant(background)
	want(t, err)
	c.end()
	want(t, g.Err(), ErrLost)
	soon(t, "it has ended", g.Context().Done())
}

// TestOneAnswer: a request that the library refuses while the client is closed is answered once.
func TestOneAnswer(t *testing.T) {
	client := open(t, shared)
	c, answers := newCore(client.core.handle), 0
	k := (&Lock{client: &Client{c}}).submit(func(_ int64, a *answer) bool {
		c.end()
		a.err = ErrBusy
		return false
	}, func(answer, bool) { answers++ })
	if a := k.wait(background, undone); a.err == nil || answers != 1 {
		t.Fatal(a.err, answers)
	}
}

func collect() {
	for i := 0; i < 4; i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

// TestGarbage: dropped clients, locks and grants are freed, in any order, without Close.
func TestGarbage(t *testing.T) {
	descriptors, goroutines := entries("fd"), runtime.NumGoroutine()
	for i := 0; i < 30; i++ {
		func() {
			client, err := Open(shared.url)
			if err != nil {
				t.Fatal(err)
			}
			lock, again := mutex(t, client, "garbage"), mutex(t, client, "garbage")
			grant := held(t, lock)
			drop := []func(){func() { client = nil }, func() { lock = nil }, func() { again = nil }}
			rand.Shuffle(len(drop), func(a, b int) { drop[a], drop[b] = drop[b], drop[a] })
			for _, f := range drop {
				f()
				runtime.GC()
			}
			unlock(t, grant)
			_, _, _ = client, lock, again
		}()
	}
	eventually(t, "all is freed", func() bool {
		collect()
		return entries("fd") <= descriptors && runtime.NumGoroutine() <= goroutines
	})
}

// TestHeldIsNoGarbage: a lock stays held while only its context is referenced.
func TestHeldIsNoGarbage(t *testing.T) {
	t.Parallel()
	ctx := func() context.Context {
		client, err := Open(shared.url, Lease(1500*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		return held(t, mutex(t, client, "kept")).Context()
	}()
	other := mutex(t, open(t, shared), "kept")
	for end := time.Now().Add(5 * time.Second / 2); time.Now().Before(end); {
		collect()
		if _, err := other.TryLock(background); !errors.Is(err, ErrBusy) || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
	}
	if err := other.ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	soon(t, "it is lost", ctx.Done())
}

// ---- tables

func TestStatuses(t *testing.T) {
	for status, name := range map[Status]string{
		ErrBusy: "BUSY", ErrInvalidURL: "INVALID_URL", ErrServerReadOnly: "SERVER_READ_ONLY", ErrNotReplicated: "NOT_REPLICATED",
	} {
		if status.Name() != name || !strings.HasPrefix(status.Error(), "dlock: ") || len(status.Error()) < 20 {
			t.Error(status.Name(), status.Error())
		}
	}
	if !ErrBusy.Retryable() || !ErrUnreachable.Retryable() || ErrNotHeld.Retryable() || Status(12345).Retryable() {
		t.Error("what may succeed later")
	}
	if Status(12345).Name() != "UNKNOWN" || Status(12345).Error() == "" {
		t.Error(Status(12345).Name(), Status(12345))
	}
	if errors.Is(ErrBusy, ErrLost) || errors.Is(&Error{Status: ErrBusy}, ErrLost) || !errors.Is(ErrBusy, ErrBusy) {
		t.Error("statuses are taken for one another")
	}
}

func TestCheck(t *testing.T) {
	client := open(t, shared)
	found, err := client.Check(background)
	want(t, err)
	for _, one := range found {
		if one.Name == "" || one.Name == "UNKNOWN" || one.Text == "" {
			t.Errorf("%+v", one)
		}
	}
	if len(found) == 0 { // it does not save
		t.Error("nothing was found")
	}
	_, err = client.Check(expired())
	want(t, err, ErrCancelled)
	want(t, client.Close())
	_, err = client.Check(background)
	want(t, err, ErrClosed)
	_, err = (*Client)(nil).Check(background)
	want(t, err, ErrInvalidArgument)
}

func TestStats(t *testing.T) {
	client := open(t, shared)
	unlock(t, held(t, mutex(t, client, "counted once")))
	if s := stats(t, client); s.Acquired != 1 || s.Held != 0 || s.Locks != 1 || s.Connects < 1 {
		t.Fatalf("%+v", s)
	}
	if Version() == "" {
		t.Fatal("no version")
	}
}
