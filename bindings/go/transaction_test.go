package dlock

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func get(t *Transaction, key string) (int, error) {
	value, err := t.Get(key)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	n, _ := strconv.Atoi(string(value))
	return n, err
}

// TestTransactions: many goroutines in two clients read, add one and write; no update is lost.
func TestTransactions(t *testing.T) {
	s := own(t)
	clients := []*Client{open(t, s), open(t, s)}
	var calls int64
	const n, turns = 8, 20
	parallel(n, func(i int) {
		for turn := 0; turn < turns; turn++ {
			err := clients[i%2].Transaction(background, func(tx *Transaction) error {
				atomic.AddInt64(&calls, 1)
				count, err := get(tx, "count")
				if err != nil {
					return err
				}
				if err := tx.Incr("also", 2); err != nil {
					return err
				}
				return tx.Set("count", []byte(strconv.Itoa(count+1)), 0)
			}, "count")
			if err != nil && !errors.Is(err, ErrConflict) {
				t.Error(err)
			} else if err != nil {
				turn-- // 50 times in vain: once more
			}
		}
	})
	if count, also := s.command(t, "GET", "count"), s.command(t, "GET", "also"); count != "160" || also != "320" {
		t.Fatal(count, also)
	}
	if calls == n*turns {
		t.Error("there was no conflict: nothing was shown")
	}
	t.Log(calls, "calls for", n*turns)
}

func TestConflictBeginsAgain(t *testing.T) {
	s := own(t)
	client := open(t, s)
	calls := 0
	want(t, client.Transaction(background, func(tx *Transaction) error {
		if calls++; calls < 3 {
			s.command(t, "SET", "watched", fmt.Sprint("foreign ", calls))
		}
		value, err := tx.Get("watched")
		if err != nil || string(value) != "foreign "+strconv.Itoa(min2(calls, 2)) {
			t.Error(string(value), err)
		}
		return tx.Set("result", value, while)
	}, "watched"))
	if calls != 3 || s.command(t, "GET", "result") != "foreign 2" || s.command(t, "TTL", "result").(int64) < 1 {
		t.Fatal(calls)
	}
	calls = 0
	want(t, client.Transaction(background, func(*Transaction) error {
		calls++
		s.command(t, "INCR", "busy")
		return nil
	}, "busy"), ErrConflict)
	if calls != attempts {
		t.Fatal(calls)
	}
	calls = 0
	want(t, client.Transaction(background, func(tx *Transaction) error { // it may say so itself
		if calls++; calls == 1 {
			_ = tx.Delete("result")
			return ErrConflict
		}
		return nil
	}, "watched"))
	if calls != 2 || s.command(t, "GET", "result") == nil {
		t.Fatal(calls, "calls, or it was written")
	}
}

func min2(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func TestTransactionValues(t *testing.T) {
	s := own(t)
	client := open(t, s)
	large := strings.Repeat("x\x00", 200000)
	want(t, client.Transaction(background, func(tx *Transaction) error {
		_, err := tx.Get("none")
		want(t, err, ErrNotFound)
		want(t, tx.Watch("large", "empty"))
		want(t, tx.Set("large", []byte(large), 0))
		want(t, tx.Set("empty", nil, 0))
		want(t, tx.Watch("late"), ErrInvalidArgument)
		_, err = tx.Get("none")
		want(t, err, ErrInvalidArgument)
		return nil
	}, "none", "key with \x00"))
	want(t, client.Transaction(background, func(tx *Transaction) error {
		if value, err := tx.Get("large"); string(value) != large || err != nil {
			t.Error(len(value), err)
		}
		if value, err := tx.Get("empty"); len(value) != 0 || err != nil {
			t.Error(value, err)
		}
		s.command(t, "RPUSH", "list", "1")
		_, err := tx.Get("list")
		want(t, err, ErrWrongKind)
		return tx.Delete("large")
	}, "large"))
	if s.command(t, "EXISTS", "large") != int64(0) {
		t.Fatal("it is still there")
	}
	want(t, client.Transaction(background, func(tx *Transaction) error {
		return tx.Incr("list", 1)
	}, "list"), ErrServerError)
}

// TestTransactionEnds: a transaction ends by an error of its function, by its context, or by Close; nothing is written, and
// the client works afterwards.
func TestTransactionEnds(t *testing.T) {
	s := own(t)
	client := open(t, s)
	broken := errors.New("broken")
	want(t, client.Transaction(background, func(tx *Transaction) error {
		want(t, tx.Set("a", []byte("1"), 0))
		return broken
	}, "a"), broken)
	ctx, cancel := context.WithCancel(background)
	var kept *Transaction
	want(t, client.Transaction(ctx, func(tx *Transaction) error {
		kept = tx
		want(t, tx.Set("a", []byte("1"), 0))
		cancel()
		return nil
	}, "a"), ErrCancelled, context.Canceled)
	want(t, kept.Set("a", nil, 0), ErrInvalidArgument)
	want(t, client.Transaction(ctx, func(tx *Transaction) error { return nil }, "a"), ErrCancelled)
	want(t, client.Transaction(background, func(tx *Transaction) error { return nil }), ErrNoTransaction)
	want(t, client.Transaction(background, func(tx *Transaction) error { return tx.Incr("n", 1) }, "n"))
	if s.command(t, "EXISTS", "a") != int64(0) || s.command(t, "GET", "n") != "1" {
		t.Fatal("something was written")
	}
	client.Close()
	want(t, client.Transaction(background, func(tx *Transaction) error { return nil }, "a"), ErrClosed)
	for _, client := range []*Client{nil, {}} {
		want(t, client.Transaction(background, nil), ErrInvalidArgument)
	}
}

// TestConflictWithoutAContext: without a context, or after its end, the function is not called again.
func TestConflictWithoutAContext(t *testing.T) {
	client, calls := open(t, shared), 0
	conflict := func(*Transaction) error {
		calls++
		return ErrConflict
	}
	var none context.Context
	want(t, client.Transaction(none, conflict), ErrInvalidArgument)
	want(t, client.Transaction(expired(), conflict), ErrCancelled, context.Canceled)
	if calls != 0 {
		t.Fatal(calls)
	}
	ctx, cancel := context.WithCancel(background)
	want(t, client.Transaction(ctx, func(*Transaction) error {
		cancel()
		return conflict(nil)
	}), ErrCancelled, context.Canceled)
	if calls != 1 {
		t.Fatal(calls)
	}
}

// TestCloseEndsTransactions: a closed client keeps no connection of a transaction.
func TestCloseEndsTransactions(t *testing.T) {
	s := own(t)
	client := open(t, s)
	parallel(4, func(i int) {
		key := fmt.Sprint("n-", i)
		want(t, client.Transaction(background, func(tx *Transaction) error { return tx.Incr(key, 1) }, key))
	})
	want(t, client.Close())
	eventually(t, "no connection is left", func() bool {
		collect()
		return strings.Count(s.command(t, "CLIENT", "LIST").(string), "\n") == 1
	})
	want(t, client.Close()) // it was not collected
}

// TestTransactionThatIsGivenUp: its connection serves the next transaction.
func TestTransactionThatIsGivenUp(t *testing.T) {
	client, mine := open(t, shared), errors.New("mine")
	before := stats(t, client).Connects
	for i := 0; i < 30; i++ {
		ctx, cancel := context.WithCancel(background)
		want(t, client.Transaction(ctx, func(*Transaction) error {
			cancel()
			return mine
		}, "key"), mine)
		want(t, client.Ping(background)) // the connection has gone back by then
	}
	if more := stats(t, client).Connects - before; more > 15 {
		t.Fatal(more, "connections")
	}
}

// TestContextEndsInTheMiddleOfARead: the connection of the transaction is closed, or serves the next one, without the garbage
// collector.
func TestContextEndsInTheMiddleOfARead(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, step := range []string{"watch", "get"} { // the request under way when the context ends
		s := own(t)
		client := open(t, s, Set("command_timeout_ms", "60000"))
		const n = 10
		for i := 0; i < n; i++ {
			ctx, cancel := context.WithCancel(background)
			middle := func(f func() error) error { // call f; the context ends during its request, as the server is paused
				s.pause(t)
				defer s.resume()
				time.AfterFunc(while/400, cancel)
				return f()
			}
			var err error
			if step == "get" {
				err = client.Transaction(ctx, func(tx *Transaction) error {
					return middle(func() error {
						_, err := tx.Get("key")
						return err
					})
				}, "key")
			} else {
				want(t, client.Transaction(background, func(*Transaction) error { return nil }, "key")) // it is connected
				err = middle(func() error {
					return client.Transaction(ctx, func(*Transaction) error { return nil }, "key")
				})
			}
			want(t, err, ErrCancelled, context.Canceled)
		}
		eventually(t, "no more connections are open than are used again", func() bool {
			want(t, client.Transaction(background, func(*Transaction) error { return nil }, "key"))
			return strings.Count(s.command(t, "CLIENT", "LIST").(string), "\n") <= 5
		})
	}
}

// TestTransactionThatPanics: its connection serves the next transaction.
func TestTransactionThatPanics(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	client := open(t, shared)
	before := stats(t, client).Connects
	for i := 0; i < 30; i++ {
		func() {
			defer func() {
				if recover() != "mine" {
					t.Error("it did not get through")
				}
			}()
			_ = client.Transaction(background, func(*Transaction) error { panic("mine") }, "key")
		}()
		want(t, client.Ping(background)) // the connection has gone back by then
	}
	if more := stats(t, client).Connects - before; more > 15 {
		t.Fatal(more, "connections")
	}
}

// TestTransactionOnAHungServer: the context ends the transaction. Nothing is written, as the watch was not answered.
func TestTransactionOnAHungServer(t *testing.T) {
	t.Parallel()
	s := own(t)
	client := open(t, s, Set("command_timeout_ms", "60000"))
	want(t, client.Transaction(background, func(tx *Transaction) error { return tx.Incr("n", 1) }, "n"))
	s.pause(t)
	ctx, cancel := context.WithTimeout(background, while/400)
	defer cancel()
	err := client.Transaction(ctx, func(tx *Transaction) error { return tx.Incr("n", 1) }, "n")
	want(t, err, ErrTimedOut, context.DeadlineExceeded)
	s.resume()
	want(t, client.Transaction(background, func(tx *Transaction) error { return tx.Incr("n", 1) }, "n"))
	if n := s.command(t, "GET", "n"); n != "2" {
		t.Fatal(n)
	}
}
