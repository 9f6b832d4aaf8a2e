//go:build cgo

package dlock

import (
	"context"
	"errors"
	"time"
)

const attempts = 50

// A Transaction reads and writes several keys together, without a lock, in the function given to Client.Transaction. Keys are
// those of the server: the option namespace does not apply. Use it from one goroutine at a time, and only in that function.
type Transaction struct {
	ctx    context.Context
	client *Client
	handle *cTxn
}

// Transaction watches keys and calls f, which reads with Get and then queues writes with Set, Incr and Delete. When f returns
// nil, all writes are done at once, or none if a watched key was changed meanwhile. In that case, and when f returns
// ErrConflict, the transaction is tried again. Nobody has to wait. After any other error of f nothing is written.
//
// ErrConflict after 50 attempts. ErrCancelled or ErrTimedOut when ctx ends before the writes. ErrUnknownOutcome when the server
// did not answer: all was written, or nothing. ErrServerError can mean that one write failed and the others were done; its
// message then says so. ErrUnreachable, ErrDenied, the other ErrServer statuses.
func (c *Client) Transaction(ctx context.Context, f func(*Transaction) error, keys ...string) error {
	if f == nil {
		return invalid("a transaction is done by a function")
	}
	t := &Transaction{ctx: ctx, client: c.orNone()}
	for attempt := 1; ; attempt++ {
		err := noLock.ended(ctx, undone)
		if err == nil {
			err = t.once(f, keys)
		}
		if attempt == attempts || !errors.Is(err, ErrConflict) {
			return err
		}
		select {
		case <-time.After(duration(txnPauseMs(int32(attempt)))):
		case <-ctx.Done():
		}
	}
}

// once is one attempt.
func (t *Transaction) once(f func(*Transaction) error, keys []string) (err error) {
	if t.handle, err = t.client.core.handle.txnNew(); err != nil {
		return err
	}
	defer func() { _, t.handle = t.handle.submitRollback(0), nil }() // also when f panics; nobody waits for the answer
	if err = t.Watch(keys...); err == nil {
		err = f(t)
	}
	if err == nil {
		_, err = t.request(unknown, t.handle.submitCommit)
		t.handle = nil // nothing is left to roll back
	}
	return err
}

// h returns the handle, or nil for a transaction that has ended or that no client made: the library refuses nil.
func (t *Transaction) h() *cTxn {
	if t == nil {
		return nil
	}
	return t.handle
}

// request is Lock.request while the transaction is under way. A request that nobody waits for any more ends with a rollback: the
// transaction is over, and its connection is free for the next one.
func (t *Transaction) request(late outcome, f func(tag int64) error) (answer, error) {
	h := t.h()
	if h == nil {
		return answer{}, invalid("no transaction is under way")
	}
	return t.client.request(t.ctx, late, f, func(_ answer, waiting bool) { _ = waiting || h.submitRollback(0) == nil })
}

// Watch watches more keys, before they are read.
func (t *Transaction) Watch(keys ...string) (err error) {
	for i := 0; i < len(keys) && err == nil; i++ {
		_, err = t.request(undone, func(tag int64) error { return t.handle.submitWatch(keys[i], tag) })
	}
	return err
}

// Get returns the value of a key, at most 1 MiB. ErrNotFound; ErrWrongKind when it is not a string. Values read one after the
// other are only consistent if the transaction succeeds.
func (t *Transaction) Get(key string) ([]byte, error) {
	a, err := t.request(undone, func(tag int64) error { return t.handle.submitGet(key, tag) })
	return a.data, err
}

// Set queues a write: the key gets a value of at most 1 MiB that expires after ttl; never when ttl is 0.
func (t *Transaction) Set(key string, value []byte, ttl time.Duration) error {
	if ttl < 0 {
		return invalid("a time to live is not negative")
	}
	if ttl == 0 {
		ttl = -1
	}
	return t.h().set(key, value, milliseconds(ttl))
}

// Incr queues a write: it adds to the decimal number in a key. A key that does not exist counts as 0.
func (t *Transaction) Incr(key string, by int64) error { return t.h().incr(key, by) }

// Delete queues a write: it deletes a key, if it exists.
func (t *Transaction) Delete(key string) error { return t.h().delete(key) }
