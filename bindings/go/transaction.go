package dlock

import (
	"context"
	"errors"
	"time"
)

const attempts = 50

// A Transaction is what is read and written together, without a lock, by the function given to Client.Transaction. Keys are
// the server's own: the namespace of locks does not apply. It is for one goroutine at a time, and only inside that function.
type Transaction struct {
	ctx    context.Context
	client *Client
	handle *cTxn
}

// Transaction watches keys and calls f, which reads by Get and then says by Set, Incr and Delete what to write. The writes
// are done all at once when f returns nil, or none of them: when somebody has changed a watched key meanwhile, all begins
// again, as it does when f returns ErrConflict. Nobody is made to wait. After another error of f nothing is written.
//
// ErrConflict after 50 attempts. When ctx ends before the writes, ErrCancelled or ErrTimedOut; ErrUnknownOutcome when all was
// written or nothing, and nobody can tell which. ErrServerError may mean that one of the writes failed and the others were
// done, its message says so. ErrUnreachable, ErrDenied, the other ErrServer statuses.
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
	defer func() { _, t.handle = t.handle.submitRollback(0), nil }() // also when f panics; nobody waits for that
	if err = t.Watch(keys...); err == nil {
		err = f(t)
	}
	if err == nil {
		_, err = t.ask(unknown, t.handle.submitCommit)
		t.handle = nil // nothing is to be rolled back
	}
	return err
}

// h is the handle; the library refuses the one of a transaction that is over or that no client made.
func (t *Transaction) h() *cTxn {
	if t == nil {
		return nil
	}
	return t.handle
}

// ask is Lock.ask while the transaction is under way. What nobody waits for any more ends with a rollback: the transaction is
// over, and its connection is for the next one.
func (t *Transaction) ask(late outcome, f func(tag int64) error) (answer, error) {
	h := t.h()
	if h == nil {
		return answer{}, invalid("no transaction is under way")
	}
	return t.client.ask(t.ctx, late, f, func(_ answer, waiting bool) { _ = waiting || h.submitRollback(0) == nil })
}

// Watch watches more keys, before they are read.
func (t *Transaction) Watch(keys ...string) (err error) {
	for i := 0; i < len(keys) && err == nil; i++ {
		_, err = t.ask(undone, func(tag int64) error { return t.handle.submitWatch(keys[i], tag) })
	}
	return err
}

// Get returns the value of a key, at most 1 MiB. ErrNotFound; ErrWrongKind when it is not a string. Only when the
// transaction succeeds did values read one after the other belong together.
func (t *Transaction) Get(key string) ([]byte, error) {
	a, err := t.ask(undone, func(tag int64) error { return t.handle.submitGet(key, tag) })
	return a.data, err
}

// Set gives a key a value of at most 1 MiB, which expires after ttl; 0: never.
func (t *Transaction) Set(key string, value []byte, ttl time.Duration) error {
	if ttl < 0 {
		return invalid("a time to live is not negative")
	}
	if ttl == 0 {
		ttl = -1
	}
	return t.h().set(key, value, milliseconds(ttl))
}

// Incr adds to the decimal number in a key; one that does not exist counts as 0.
func (t *Transaction) Incr(key string, by int64) error { return t.h().incr(key, by) }

// Delete deletes a key, if it exists.
func (t *Transaction) Delete(key string) error { return t.h().delete(key) }
