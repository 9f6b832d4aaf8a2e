package dlock

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var background = context.Background()

func TestLockAndUnlock(t *testing.T) {
	lock := mutex(t, open(t, shared), "plain mutex", Lease(10*time.Second))
	last := int64(0)
	for i := 0; i < 3; i++ {
		grant := held(t, lock)
		if grant.Token() <= last {
			t.Fatalf("token %d after %d", grant.Token(), last)
		}
		last = grant.Token()
		if left := grant.Remaining(); left <= 8*time.Second || left > 10*time.Second {
			t.Fatal(left)
		}
		ctx := grant.Context()
		if grant.Err() != nil || ctx.Err() != nil {
			t.Fatal(grant.Err(), ctx.Err())
		}
		unlock(t, grant)
		soon(t, "unlocking ends the context", ctx.Done())
		if !errors.Is(grant.Err(), ErrNotHeld) || grant.Remaining() != 0 || hasCauses && !errors.Is(cause(ctx), ErrNotHeld) {
			t.Fatal(grant.Err(), grant.Remaining(), cause(ctx))
		}
		want(t, grant.Unlock(background), ErrNotHeld)
		want(t, grant.Extend(background, time.Second), ErrNotHeld)
	}
	if lock.Name() != "plain mutex" {
		t.Fatal(lock.Name())
	}
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

func TestBusyTimedOutAndCancelled(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	grant := held(t, mutex(t, other, "busy"))
	for _, lock := range []*Lock{mutex(t, client, "busy"), mutex(t, other, "busy")} {
		_, err := lock.TryLock(background)
		want(t, err, ErrBusy)
		_, err = lock.LockWithin(background, 0)
		want(t, err, ErrBusy)
		_, err = lock.LockWithin(background, 30*time.Millisecond)
		want(t, err, ErrTimedOut)
		ctx, cancel := context.WithTimeout(background, 30*time.Millisecond)
		_, err = lock.Lock(ctx)
		want(t, err, ErrTimedOut, context.DeadlineExceeded)
		cancel()
		ctx, cancel = context.WithCancel(background)
		time.AfterFunc(30*time.Millisecond, cancel)
		_, err = lock.Lock(ctx)
		want(t, err, ErrCancelled, context.Canceled)
		_, err = lock.Lock(ctx)
		want(t, err, ErrCancelled, context.Canceled)
		var e *Error
		if !errors.As(err, &e) || e.Status.Name() != "CANCELLED" || !strings.Contains(err.Error(), "lock \"busy\"") {
			t.Fatal(err)
		}
	}
	unlock(t, grant)
	if s, o := stats(t, client), stats(t, other); s.Waiting != 0 || o.Waiting != 0 {
		t.Fatal("somebody still waits", s, o)
	}
}

func TestNotReentrant(t *testing.T) {
	lock := mutex(t, open(t, shared), "once")
	grant := held(t, lock)
	_, err := lock.TryLock(background)
	want(t, err, ErrBusy)
	done := make(chan struct{})
	go func() { // another goroutine may unlock
		defer close(done)
		unlock(t, grant)
	}()
	<-done
	unlock(t, held(t, lock))
}

func TestContextOfTheHolder(t *testing.T) {
	lock := mutex(t, open(t, shared), "parent")
	type key struct{}
	parent, cancel := context.WithCancel(context.WithValue(background, key{}, "value"))
	grant, err := lock.Lock(parent)
	if err != nil {
		t.Fatal(err)
	}
	ctx := grant.Context()
	if ctx != grant.Context() || ctx.Value(key{}) != "value" {
		t.Fatal("it is not a child of Lock's context")
	}
	cancel()
	soon(t, "the parent ends it", ctx.Done())
	if grant.Err() != nil {
		t.Fatal("a context does not unlock", grant.Err())
	}
	unlock(t, grant)
}

func TestUnlockTwiceAtOnce(t *testing.T) {
	lock := mutex(t, open(t, shared), "twice")
	for i := 0; i < 50; i++ {
		grant := held(t, lock)
		var good, bad sync.Map
		parallel(8, func(i int) {
			if err := grant.Unlock(background); err == nil {
				good.Store(i, nil)
			} else if !errors.Is(err, ErrNotHeld) {
				bad.Store(i, err)
			}
		})
		if count(&good) != 1 || count(&bad) != 0 {
			t.Fatal(count(&good), "released it;", count(&bad), "failed otherwise")
		}
	}
}

func count(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func TestUnlockWithAContextThatIsOver(t *testing.T) {
	lock := mutex(t, open(t, shared), "over")
	for i := 0; i < 20; i++ {
		if err := held(t, lock).Unlock(expired()); err != nil { // nil: the server was fast
			want(t, err, ErrUnknownOutcome, context.Canceled)
			if !strings.Contains(err.Error(), `lock "over"`) {
				t.Fatal(err)
			}
		}
	}
	unlock(t, held(t, mutex(t, open(t, shared), "over")))
}

func TestExtendInspectForce(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	lock := mutex(t, client, "orders", Lease(2*time.Second))
	seen, err := lock.Inspect(background)
	if err != nil || seen.Holder != "" {
		t.Fatal(seen, err)
	}
	want(t, lock.ForceUnlock(background), ErrNotHeld)
	grant := held(t, lock)
	if err := grant.Extend(background, time.Minute); err != nil || grant.Remaining() < 50*time.Second {
		t.Fatal(err, grant.Remaining())
	}
	want(t, grant.Extend(background, -time.Second), ErrInvalidArgument)
	seen, err = mutex(t, other, "orders").Inspect(background)
	if err != nil || seen.Holder == "" || seen.Foreign || seen.Token < grant.Token() || seen.Remaining < 50*time.Second {
		t.Fatal(seen, err)
	}
	_, err = lock.Inspect(expired())
	want(t, err, ErrCancelled)
	if err := mutex(t, other, "orders").ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	unlock(t, held(t, mutex(t, other, "orders")))
	_ = grant.Unlock(background)
}

func TestExportAndAdopt(t *testing.T) {
	here, there := mutex(t, open(t, shared), "moved"), mutex(t, open(t, shared), "moved")
	grant := held(t, here)
	ctx := grant.Context()
	bytes, err := grant.Export()
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "exporting ends the context", ctx.Done())
	want(t, grant.Err(), ErrNotHeld)
	_, err = grant.Export()
	want(t, err, ErrNotHeld)
	for _, wrong := range [][]byte{nil, {}, []byte("nonsense"), bytes[1:]} {
		_, err = there.Adopt(background, wrong)
		want(t, err, ErrInvalidGrant)
	}
	_, err = there.Adopt(expired(), bytes)
	want(t, err, ErrCancelled)
	adopted, err := there.Adopt(background, bytes)
	if err != nil || adopted.Token() != grant.Token() || adopted.Err() != nil {
		t.Fatal(err, adopted)
	}
	_, err = here.TryLock(background)
	want(t, err, ErrBusy)
	unlock(t, adopted)
	want(t, grant.Unlock(background), ErrNotHeld)
}

// ---- exclusion: a counter in Redis, read and written apart

// contend adds one to the counter under the lock, turns times in each of n goroutines, and records each token.
func contend(client *Client, path string, n, turns int) error {
	lock, err := client.Mutex("counted")
	if err != nil {
		return err
	}
	failed := make(chan error, n)
	parallel(n, func(int) {
		r, err := dial(path)
		for i := 0; i < turns && err == nil; i++ {
			err = oneTurn(lock, r)
		}
		if err != nil {
			failed <- err
		}
	})
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func oneTurn(lock *Lock, r *redis) error {
	grant, err := lock.LockWithin(background, while)
	if err != nil {
		return err
	}
	answer, err := r.do("GET", "counter")
	if err != nil {
		return err
	}
	text, _ := answer.(string)
	number, _ := strconv.Atoi(text)
	if _, err = r.do("SET", "counter", strconv.Itoa(number+1)); err != nil {
		return err
	}
	if _, err = r.do("RPUSH", "tokens", strconv.FormatInt(grant.Token(), 10)); err != nil {
		return err
	}
	return grant.Unlock(background)
}

// children are the functions that tests run in other processes: this program with DLOCK_TEST_ROLE set.
var children = map[string]func() error{
	"contend": func() error {
		client, err := Open(os.Getenv("REDIS_URL"))
		if err != nil {
			return err
		}
		defer client.Close()
		return contend(client, os.Getenv("DLOCK_TEST_PATH"), 8, 40)
	},
	"many":   manyWaiters,
	"asking": asking,
}

func TestExclusion(t *testing.T) {
	s := own(t)
	const processes = 3
	running := make([]*exec.Cmd, processes)
	for i := range running {
		running[i] = exec.Command(os.Args[0])
		running[i].Env = append(os.Environ(), "DLOCK_TEST_ROLE=contend", "REDIS_URL="+s.url, "DLOCK_TEST_PATH="+s.path)
		running[i].Stderr = os.Stderr
		if err := running[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := contend(open(t, s), s.path, 8, 40); err != nil {
		t.Error(err)
	}
	for _, process := range running {
		if err := process.Wait(); err != nil {
			t.Error(err)
		}
	}
	if n := s.command(t, "GET", "counter"); n != strconv.Itoa((processes+1)*8*40) {
		t.Fatal("the counter is", n)
	}
	last := int64(0)
	for _, token := range s.command(t, "LRANGE", "tokens", "0", "-1").([]any) {
		number, _ := strconv.ParseInt(token.(string), 10, 64)
		if number <= last {
			t.Fatalf("token %d after %d", number, last)
		}
		last = number
	}
}

// ---- arguments

func TestBadInput(t *testing.T) {
	for url, status := range map[string]Status{
		"": ErrInvalidURL, "nonsense": ErrInvalidURL, "redis://": ErrInvalidURL, "http://host": ErrInvalidURL,
		"redis://host\x00": ErrInvalidArgument, "redis://host?nonsense=1": ErrUnknownOption,
		"redis://host?lease_ms=x": ErrInvalidOption,
	} {
		if _, err := Open(url); !errors.Is(err, status) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%q: %v", url, err)
		}
	}
	client := open(t, shared)
	for option, status := range map[Option]Status{
		Set("nonsense", "1"): ErrUnknownOption, Set("lease_ms", ""): ErrInvalidOption, Lease(-1): ErrInvalidOption,
		Lease(math.MaxInt64): ErrInvalidOption, Set("a\x00", ""): ErrInvalidArgument, {}: ErrUnknownOption,
		Set("lease_ms", "1\x00"): ErrInvalidArgument,
	} {
		_, err := client.Mutex("a", option)
		want(t, err, status)
		_, err = Open(shared.url, option)
		want(t, err, status)
	}
	for _, name := range []string{"", "a\x00b", strings.Repeat("x", 1025), "{}", "a{"} {
		_, err := client.Mutex(name)
		want(t, err, ErrInvalidName)
	}
	lock := mutex(t, client, "bad")
	_, err := lock.LockWithin(background, -1)
	want(t, err, ErrInvalidArgument)
	var none context.Context
	_, err = lock.Lock(none)
	want(t, err, ErrInvalidArgument)
	grant := held(t, lock)
	want(t, grant.Unlock(none), ErrInvalidArgument)
	unlock(t, grant)
}

func TestZeroValues(t *testing.T) {
	for _, client := range []*Client{nil, {}} {
		_, err := client.Mutex("a")
		want(t, err, ErrInvalidArgument)
		_, err = client.Stats()
		want(t, err, ErrInvalidArgument)
		want(t, client.Ping(background), ErrInvalidArgument)
		want(t, client.Close(), ErrInvalidArgument)
		if client.Events() != nil {
			t.Error("events")
		}
	}
	for _, lock := range []*Lock{nil, {}} {
		_, err := lock.Lock(background)
		want(t, err, ErrInvalidArgument)
		_, err = lock.Inspect(background)
		want(t, err, ErrInvalidArgument)
		_, err = lock.Adopt(background, nil)
		want(t, err, ErrInvalidArgument)
		want(t, lock.ForceUnlock(background), ErrInvalidArgument)
		_ = lock.Name()
	}
	for _, grant := range []*Grant{nil, {}} {
		want(t, grant.Unlock(background), ErrInvalidArgument)
		want(t, grant.Err(), ErrInvalidArgument)
		want(t, grant.Extend(background, time.Second), ErrInvalidArgument)
		_, err := grant.Export()
		want(t, err, ErrInvalidArgument)
		if grant.Token() != 0 || grant.Remaining() != 0 || grant.Context().Err() == nil {
			t.Error("something is held")
		}
	}
}

func TestMilliseconds(t *testing.T) {
	for d, ms := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, -1: -1, -time.Hour: -1, math.MaxInt64: 9223372036855,
	} {
		if milliseconds(d) != ms {
			t.Errorf("%d: %d", d, milliseconds(d))
		}
	}
}
