package dlock

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestLossInTime: the server stops and nothing is renewed. Every holder's context ends before the lease does. A round in
// which the machine did not let this process run is repeated.
func TestLossInTime(t *testing.T) {
	t.Parallel()
	const together = 20
	repeats := 0
	for n := counts(200, 20); n > 0; {
		beats := startBeats()
		late := lossRound(t, together)
		if stall := beats.stop(); late > 0 && stall > 10*time.Millisecond && repeats < 5 {
			t.Logf("%v ended %v after the lease; for %v nothing ran", together, late, stall)
			repeats++
			continue
		}
		if late > 0 {
			t.Fatalf("%v after the lease", late)
		}
		n -= together
	}
}

// beats returns the longest time for which a goroutine that should run every millisecond did not run.
type beats struct {
	end     chan struct{}
	longest chan time.Duration
}

func startBeats() beats {
	b := beats{make(chan struct{}), make(chan time.Duration, 1)}
	go func() {
		longest, last := time.Duration(0), time.Now()
		for {
			select {
			case <-b.end:
				b.longest <- longest
				return
			case <-time.After(time.Millisecond):
			}
			now := time.Now()
			if now.Sub(last) > longest {
				longest = now.Sub(last)
			}
			last = now
		}
	}()
	return b
}

func (b beats) stop() time.Duration {
	close(b.end)
	return <-b.longest
}

// lossRound returns how long after the end of the lease the last context ended; 0 or less when none did.
func lossRound(t *testing.T, n int) (latest time.Duration) {
	s := own(t)
	defer s.stop()
	client := open(t, s, Lease(1500*time.Millisecond))
	grants, expires, late := make([]*Grant, n), make([]time.Time, n), make([]time.Duration, n)
	for i := range grants {
		name := fmt.Sprint("lost-", i)
		grants[i] = held(t, mutex(t, client, name))
		expires[i] = time.UnixMilli(s.command(t, "PEXPIRETIME", name).(int64))
	}
	s.pause(t)
	parallel(n, func(i int) {
		ctx := grants[i].Context()
		select {
		case <-ctx.Done():
		case <-time.After(while):
		}
		late[i] = time.Since(expires[i])
		var e *Error
		if err := grants[i].Err(); !errors.As(err, &e) || e.Status != ErrLost || grants[i].Remaining() != 0 {
			t.Error(err, grants[i].Remaining())
		}
		if err := cause(ctx); !errors.Is(err, ErrLost) && err != ctx.Err() {
			t.Error(err)
		}
		if err := grants[i].Unlock(background); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
	idle(t, client)
	s.resume()
	unlock(t, held(t, mutex(t, client, "lost-0")))
	for _, d := range late {
		if d > latest {
			latest = d
		}
	}
	return latest
}

func TestLossIsTheCause(t *testing.T) {
	t.Parallel()
	lock := mutex(t, open(t, shared), "forced", Lease(500*time.Millisecond))
	grant, later := held(t, lock), (*Grant)(nil)
	ctx := grant.Context()
	if err := lock.ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	soon(t, "the context ends", ctx.Done())
	want(t, grant.Err(), ErrLost)
	if grant.Context() != ctx {
		t.Fatal("another context")
	}
	want(t, grant.Unlock(background), ErrLost)
	want(t, grant.Unlock(background), ErrNotHeld)
	later = held(t, lock)
	if later.Token() <= grant.Token() {
		t.Fatal(later.Token(), grant.Token())
	}
	if hasCauses {
		want(t, cause(ctx), ErrLost)
	}
	if err := lock.ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is lost", func() bool { return later.Err() != nil })
	soon(t, "a context asked for after the loss ends too", later.Context().Done())
	if hasCauses {
		eventually(t, "with its cause", func() bool { return errors.Is(cause(later.Context()), ErrLost) })
	}
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	lock := mutex(t, open(t, shared), "long", MaxHold(600*time.Millisecond), Lease(500*time.Millisecond))
	grant := held(t, lock)
	soon(t, "it ends", grant.Context().Done())
	want(t, grant.Err(), ErrLost)
	short := held(t, mutex(t, open(t, shared), "short", Renew(false), Lease(100*time.Millisecond)))
	soon(t, "it ends", short.Context().Done())
	want(t, short.Err(), ErrLost)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := own(t)
	client := open(t, s, Lease(1000*time.Millisecond))
	events := client.Events()
	if events != client.Events() {
		t.Fatal("another channel")
	}
	next := func(kind EventType) Event {
		for {
			select {
			case event := <-events:
				if event.Type == kind {
					return event
				}
			case <-time.After(while):
				t.Fatal("no event", kind)
			}
		}
	}
	grant := held(t, mutex(t, client, "told"))
	if err := mutex(t, open(t, s), "told").ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	if event := next(EventLost); event.Lock != "told" || event.Cause != CauseTaken || event.Token != grant.Token() || event.Text == "" {
		t.Fatalf("%+v", event)
	}
	grant = held(t, mutex(t, client, "told"))
	s.pause(t)
	if event := next(EventAtRisk); event.Lock != "told" || event.Remaining <= 0 || event.Remaining > time.Second {
		t.Fatalf("%+v", event)
	}
	if grant.Err() != nil && !errors.Is(grant.Err(), ErrLost) {
		t.Fatal(grant.Err())
	}
	if event := next(EventLost); event.Cause != CauseExpired {
		t.Fatalf("%+v", event)
	}
	if event := next(EventLog); event.Lock != "" || event.Text == "" {
		t.Fatalf("%+v", event)
	}
	s.resume()
	held(t, mutex(t, client, "told"))
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if event := next(EventLost); event.Cause != CauseClosed {
		t.Fatalf("%+v", event)
	}
	for range events { // until it is closed
	}
}

// TestEventsThatNobodyTakes: events that nobody reads are dropped, and nothing waits for them.
func TestEventsThatNobodyTakes(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	events := client.Events()
	for i := 0; i < eventRoom+10; i++ {
		name := fmt.Sprint("untold-", i)
		ctx := held(t, mutex(t, client, name, Lease(500*time.Millisecond))).Context()
		if err := mutex(t, other, name).ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		if i == eventRoom+9 {
			soon(t, "it is lost", ctx.Done())
		}
	}
	eventually(t, "all are lost", func() bool { return stats(t, client).Lost == eventRoom+10 })
	if len(events) != eventRoom {
		t.Fatal(len(events))
	}
}
