package dlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// counts returns the full number, or the smaller one of the default run.
func counts(all, some int) int {
	if full {
		return all
	}
	return some
}

// leftovers returns the keys on a server that belong to holders or waiters: all but token counters.
func leftovers(t testing.TB, s *server) (left []string) {
	for _, key := range s.command(t, "KEYS", "*").([]any) {
		if name := key.(string); !strings.HasPrefix(name, "redisson_lock_token") {
			left = append(left, name)
		}
	}
	return left
}

// TestManyWaiters: 10,000 goroutines wait for 100 locks without a thread each, and all get the lock. In a process of its own,
// since Go never ends threads.
func TestManyWaiters(t *testing.T) {
	s := own(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "DLOCK_TEST_ROLE=many", "REDIS_URL="+s.url)
	out, err := child.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left on the server", func() bool { return len(leftovers(t, s)) == 0 })
}

func manyWaiters() error {
	const locks, threads = 100, 20
	n := counts(10000, 2000)
	client, err := Open(os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	holder, err := Open(os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	var grants [locks]*Grant
	for i := range grants {
		lock, err := holder.Mutex(fmt.Sprint("many-", i))
		if err == nil {
			grants[i], err = lock.Lock(background)
		}
		if err != nil {
			return err
		}
	}
	served, answers := int64(0), make(chan error, n)
	for i := 0; i < n; i++ {
		go func(i int) {
			lock, err := client.Mutex(fmt.Sprint("many-", i%locks))
			var grant *Grant
			if err == nil {
				grant, err = lock.LockWithin(background, 3*while)
			}
			if err == nil {
				atomic.AddInt64(&served, 1)
				err = grant.Unlock(background)
			}
			answers <- err
		}(i)
	}
	for s, err := client.Stats(); s.Waiting != int64(n); s, err = client.Stats() {
		if err != nil {
			return err
		}
	}
	waiting, start := entries("task"), time.Now()
	for _, grant := range grants {
		if err := grant.Unlock(background); err != nil {
			return err
		}
	}
	for i := 0; i < n; i++ {
		if err := <-answers; err != nil {
			return err
		}
	}
	took := time.Since(start)
	fmt.Printf("%d waiters: %d threads while all waited, %d at the end, %d/s served\n", n, waiting, entries("task"),
		int64(float64(n)/took.Seconds()))
	if waiting > threads || entries("task") > threads || served != int64(n) {
		return fmt.Errorf("%d threads, %d served", entries("task"), served)
	}
	return client.Close()
}

// TestCancelHalf: half of the waiters are cancelled; they leave nothing behind, and the other waiters get the lock.
func TestCancelHalf(t *testing.T) {
	const locks = 20
	n := counts(10000, 1000)
	s := own(t)
	holder, client := open(t, s), open(t, s)
	var grants [locks]*Grant
	for i := range grants {
		grants[i] = held(t, mutex(t, holder, fmt.Sprint("half-", i)))
	}
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var served, gone int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		parallel(n, func(i int) {
			with := background
			if i%2 == 0 {
				with = ctx
			}
			lock, err := client.Mutex(fmt.Sprint("half-", i/2%locks))
			if err != nil {
				t.Error(err)
				return
			}
			grant, err := lock.LockWithin(with, 3*while)
			if errors.Is(err, context.Canceled) && i%2 == 0 {
				atomic.AddInt64(&gone, 1)
			} else if err != nil {
				t.Error(err)
			} else if err = grant.Unlock(background); err != nil {
				t.Error(err)
			} else {
				atomic.AddInt64(&served, 1)
			}
		})
	}()
	eventually(t, "all wait", func() bool { return stats(t, client).Waiting == int64(n) })
	cancel()
	eventually(t, "half of them are gone", func() bool {
		return atomic.LoadInt64(&gone) == int64(n/2) && stats(t, client).Waiting == int64(n/2)
	})
	for _, grant := range grants {
		unlock(t, grant)
	}
	<-done
	if served != int64(n/2) {
		t.Fatal(served, "were served")
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	eventually(t, "nothing is left on the server", func() bool { return len(leftovers(t, s)) == 0 })
	idle(t, client)
}

// idle waits until a client has no grants and no requests.
func idle(t testing.TB, client *Client) {
	t.Helper()
	eventually(t, "nothing is held or waited for", func() bool {
		s := stats(t, client)
		client.core.mutex.Lock()
		defer client.core.mutex.Unlock()
		return s.Held == 0 && s.Waiting == 0 && len(client.core.known) == 0
	})
}

// stopReading keeps a client from reading events until the returned function is called.
func stopReading(t testing.TB, client *Client) (again func()) {
	t.Helper()
	reached, gate := make(chan bool), make(chan bool)
	(&Lock{client: client}).submit(func(tag int64, a *answer) bool {
		a.err = client.core.handle.submitPing(-1, tag)
		return a.err == nil
	}, func(answer, bool) {
		close(reached)
		<-gate
	})
	<-reached
	return func() { close(gate) }
}

// TestLateWin: a grant that arrives after its waiter has gone is released.
func TestLateWin(t *testing.T) {
	client, other := open(t, shared, Set("busy_poll_us", "0")), open(t, shared)
	theirs, ours := mutex(t, other, "late"), mutex(t, client, "late")
	late := 0
	for i := 0; i < 10; i++ {
		grant := held(t, theirs)
		ctx, cancel := context.WithCancel(background)
		var won *Grant
		failed := make(chan error)
		go func() {
			var err error
			won, err = ours.Lock(ctx)
			failed <- err
		}()
		eventually(t, "it waits", func() bool { return stats(t, client).Waiting == 1 })
		again := stopReading(t, client)
		unlock(t, grant)
		eventually(t, "it has won", func() bool { return stats(t, client).Held == 1 })
		cancel()
		if err := <-failed; err == nil { // the call that began has seen it
			unlock(t, won)
		} else {
			want(t, err, ErrCancelled, context.Canceled)
			late++
		}
		again()
		unlock(t, held(t, theirs))
		idle(t, client)
	}
	if late == 0 {
		t.Fatal("no win was late")
	}
}

// TestWinOrCancel: grant and cancellation race, and nothing is left behind.
func TestWinOrCancel(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	theirs, ours := mutex(t, other, "race"), mutex(t, client, "race")
	won, gone := 0, 0
	for i := 0; i < counts(2000, 200); i++ {
		grant := held(t, theirs)
		ctx, cancel := context.WithCancel(background)
		answer := make(chan error)
		go func() {
			grant, err := ours.Lock(ctx)
			if err == nil {
				err = grant.Unlock(background)
			}
			answer <- err
		}()
		if i%2 == 0 {
			eventually(t, "it waits", func() bool { return stats(t, client).Waiting == 1 })
		}
		time.AfterFunc(time.Duration(rand.Intn(300))*time.Microsecond, cancel)
		unlock(t, grant)
		if err := <-answer; err == nil {
			won++
		} else if want(t, err, context.Canceled); true {
			gone++
		}
		cancel()
	}
	t.Logf("%d won, %d were cancelled", won, gone)
	idle(t, client)
	unlock(t, held(t, theirs))
}

// TestHungServer: contexts also end waits while the server does not answer, for all calls but the one that may block a thread.
func TestHungServer(t *testing.T) {
	t.Parallel()
	const n = 50
	s := own(t)
	client := open(t, s, Set("command_timeout_ms", "60000"), Lease(time.Minute))
	lock := mutex(t, client, "hung")
	unlock(t, held(t, lock))
	s.pause(t)
	answers := make(chan error, n)
	for i := 0; i < n; i++ {
		go func(i int) {
			ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
			defer cancel()
			grant, err := mutex(t, client, fmt.Sprint("hung-", i)).Lock(ctx)
			if err == nil {
				err = grant.Unlock(background)
			}
			answers <- err
		}(i)
	}
	for i := 0; i < n-1; i++ {
		want(t, <-answers, ErrTimedOut, context.DeadlineExceeded)
	}
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	want(t, client.Ping(ctx), context.DeadlineExceeded)
	s.resume()
	if err := <-answers; err != nil {
		want(t, err, context.DeadlineExceeded)
	}
	unlock(t, held(t, lock))
	idle(t, client)
}

// TestOpenWithChecks: Open with checks on a server that does not answer does not delay other clients.
func TestOpenWithChecks(t *testing.T) {
	t.Parallel()
	const n = 8
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	want(t, err)
	url, all := "redis://"+silent.Addr().String(), make(chan net.Conn, n)
	go func() {
		for conn, err := silent.Accept(); err == nil; conn, err = silent.Accept() {
			all <- conn
		}
	}()
	opened := make(chan error, n)
	for i := 0; i < n; i++ {
		go func() {
			client, err := Open(url, Set("checks", "refuse"), Set("connect_timeout_ms", "60000"), Set("command_timeout_ms", "60000"))
			if err == nil {
				client.Close()
			}
			opened <- err
		}()
	}
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = <-all
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		unlock(t, held(t, mutex(t, open(t, shared), "beside")))
	}()
	select {
	case <-done:
	case <-time.After(while):
		t.Error("a client of another server waits for them")
	}
	silent.Close()
	for _, conn := range conns {
		conn.Close()
	}
	for i := 0; i < n; i++ {
		if err := <-opened; err == nil {
			t.Error("a silent server is fit")
		}
	}
	soon(t, "the other client goes on", done)
}

// TestNoServer: without a server TryLock and Ping fail at once, and Lock waits.
func TestNoServer(t *testing.T) {
	t.Parallel()
	s := own(t)
	client := open(t, s)
	s.stop()
	lock := mutex(t, client, "none")
	_, err := lock.TryLock(background)
	want(t, err, ErrUnreachable)
	want(t, client.Ping(background), ErrUnreachable)
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err = lock.Lock(ctx)
	want(t, err, context.DeadlineExceeded)
	_, err = lock.LockWithin(background, 100*time.Millisecond)
	want(t, err, ErrUnreachable)
}

// TestAskingHoldsNoThreads: 1000 goroutines ask a server that never answers. In a process of its own.
func TestAskingHoldsNoThreads(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "DLOCK_TEST_ROLE=asking")
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
}

func asking() error {
	const n, threads = 1000, 20
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			defer conn.Close()
		}
	}()
	client, err := Open("redis://"+listener.Addr().String(), Set("connect_timeout_ms", "60000"))
	if err != nil {
		return err
	}
	lock, _ := client.Mutex("asked")
	seats, _ := client.Semaphore("seats")
	latch, _ := client.Latch("latch")
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	answers := make(chan error, n)
	for i := 0; i < n; i++ {
		call := []func() error{
			func() error { _, err := lock.Inspect(ctx); return err },
			func() error { return lock.CloseGate(ctx, time.Minute) },
			func() error { _, err := seats.AddPermits(ctx, 1); return err },
			func() error { _, err := latch.Count(ctx); return err },
			func() error { return client.Ping(ctx) },
		}[i%5]
		go func() { answers <- call() }()
	}
	for known := 0; known < n; time.Sleep(time.Millisecond) {
		client.core.mutex.Lock()
		known = len(client.core.known)
		client.core.mutex.Unlock()
		select {
		case err := <-answers:
			return fmt.Errorf("answered: %w", err)
		default:
		}
	}
	if used := entries("task"); used > threads {
		return fmt.Errorf("%d threads", used)
	}
	cancel()
	for i := 0; i < n; i++ {
		if err := <-answers; !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnknownOutcome) {
			return err
		}
	}
	return nil
}
