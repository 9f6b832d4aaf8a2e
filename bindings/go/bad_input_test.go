package dlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestBadValues: each parameter with a bad value gives the right error; nothing is sent when the binding or the library can
// see it.
func TestBadValues(t *testing.T) {
	client, other := open(t, shared), open(t, shared)
	lock, theirs := mutex(t, client, "values"), mutex(t, other, "values")
	fair := func(l *Lock, err error) *Lock {
		t.Helper()
		want(t, err, nil)
		return l
	}(client.FairMutex("values:fair"))
	seats, err := client.Semaphore("values:seats")
	want(t, err, nil)
	want(t, seats.SetPermits(background, 1), nil)
	slots, err := client.PermitSemaphore("values:slots")
	want(t, err, nil)
	want(t, slots.SetPermits(background, 1), nil)
	latch, err := client.Latch("values:latch")
	want(t, err, nil)
	grant, slot := held(t, lock), func(g *Grant, err error) *Grant {
		t.Helper()
		want(t, err, nil)
		return g
	}(slots.Acquire(background))

	last := func(results ...any) error {
		err, _ := results[len(results)-1].(error)
		return err
	}
	many := make([]*Lock, 17)
	for i := range many {
		many[i] = mutex(t, client, fmt.Sprint("values:", i))
	}
	for what, f := range map[string]func() error{
		"a wait":                      func() error { return last(lock.LockWithin(background, -1)) },
		"the longest wait below none": func() error { return last(lock.LockWithin(background, math.MinInt64)) },
		"a wait for permits":          func() error { return last(seats.AcquireWithin(background, -1)) },
		"a wait for a latch":          func() error { return latch.WaitWithin(background, -1) },
		"a lease of nothing":          func() error { return grant.Extend(background, 0) },
		"a lease below nothing":       func() error { return grant.Extend(background, -time.Hour) },
		"a lease without end":         func() error { return grant.Extend(background, math.MaxInt64) },
		"a gate of no time":           func() error { return lock.CloseGate(background, 0) },
		"a gate of less":              func() error { return lock.CloseGate(background, -1) },
		"no permits below zero":       func() error { return seats.SetPermits(background, -1) },
		"permits beyond":              func() error { return seats.SetPermits(background, math.MaxInt64) },
		"permits to add beyond":       func() error { return last(seats.AddPermits(background, math.MaxInt64)) },
		"permits to take beyond":      func() error { return last(seats.AddPermits(background, math.MinInt64)) },
		"a count below zero":          func() error { return latch.SetCount(background, -1) },
		"a count beyond":              func() error { return latch.SetCount(background, math.MaxInt64) },
		"counting up":                 func() error { return last(latch.CountDown(background, -1)) },
		"a permit before the first":   func() error { return last(slot.PermitID(-1)) },
		"a permit behind the last":    func() error { return last(slot.PermitID(1)) },
		"the largest permit":          func() error { return last(slot.PermitID(math.MaxInt64)) },
		"no members":                  func() error { return last(client.MultiLock()) },
		"a member that is nil":        func() error { return last(client.MultiLock(lock, nil)) },
		"a member that is zero":       func() error { return last(client.MultiLock(&Lock{})) },
		"a member of another client":  func() error { return last(client.MultiLock(fair, theirs)) },
		"too many members":            func() error { return last(client.MultiLock(many...)) },
	} {
		if err := f(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	want(t, last(client.MultiLock(lock, lock)), ErrDuplicateName)
	for _, bytes := range [][]byte{nil, {}, {0}, []byte("nonsense"), make([]byte, 1<<20)} {
		want(t, last(mutex(t, client, "values:free").Adopt(background, bytes)), ErrInvalidGrant)
	}
	for _, permits := range []int{0, -1, math.MinInt64, math.MaxInt64} {
		want(t, last(client.Semaphore("values:seats", Permits(permits))), ErrInvalidOption)
	}
	for _, d := range []time.Duration{0, -1, math.MinInt64, math.MaxInt64} {
		want(t, last(client.Mutex("values", Lease(d))), ErrInvalidOption)
	}
	var kept *Transaction
	want(t, client.Transaction(background, func(tx *Transaction) error {
		for _, ttl := range []time.Duration{-1, -time.Hour, math.MinInt64} {
			want(t, tx.Set("values:key", nil, ttl), ErrInvalidArgument)
		}
		for _, key := range []string{"", strings.Repeat("x", 1<<20)} {
			want(t, last(tx.Get(key)), ErrInvalidArgument)
			want(t, tx.Set(key, nil, 0), ErrInvalidArgument)
			want(t, tx.Incr(key, 1), ErrInvalidArgument)
			want(t, tx.Delete(key), ErrInvalidArgument)
			want(t, tx.Watch(key), ErrInvalidArgument)
		}
		want(t, tx.Set("values:key", make([]byte, 1<<20+1), 0), ErrInvalidArgument)
		kept = tx
		return nil
	}, "values:key"), nil)
	want(t, last(kept.Get("values:key")), ErrInvalidArgument)
	want(t, kept.Set("values:key", nil, 0), ErrInvalidArgument)
	want(t, client.Transaction(background, nil, "values:key"), ErrInvalidArgument)
	var none context.Context
	want(t, client.Transaction(none, func(*Transaction) error { return nil }, "values:key"), ErrInvalidArgument)
	if grant.Err() != nil || slot.Err() != nil {
		t.Error("a grant was lost", grant.Err(), slot.Err())
	}
	want(t, slot.Unlock(background), nil)
	unlock(t, grant)
}

// nonsense returns odd values for a parameter of any type that methods have.
func nonsense(of reflect.Type, client *Client) []any {
	over, cancel := context.WithCancel(background)
	cancel()
	soon, stop := context.WithTimeout(background, 3*time.Millisecond)
	time.AfterFunc(while, stop)
	switch of {
	case reflect.TypeOf((*context.Context)(nil)).Elem():
		return []any{nil, over, soon}
	case reflect.TypeOf(time.Duration(0)):
		return []any{time.Duration(math.MinInt64), time.Duration(-1), time.Duration(0), time.Duration(1)}
	case reflect.TypeOf(0):
		return []any{math.MinInt64, -1, 0, 1, math.MaxInt64}
	case reflect.TypeOf(int64(0)):
		return []any{int64(math.MinInt64), int64(-1), int64(0), int64(math.MaxInt64)}
	case reflect.TypeOf(""):
		return []any{"", "\x00", "\xff", strings.Repeat("x", 1<<16)}
	case reflect.TypeOf((*error)(nil)).Elem():
		return []any{nil, ErrLost, &Error{}, (*Error)(nil)}
	case reflect.TypeOf([]byte{}):
		return []any{[]byte(nil), []byte("x"), make([]byte, 1<<16)}
	case reflect.TypeOf([]Option{}):
		return []any{[]Option(nil), []Option{{}}, []Option{Set("lease_ms", "\x00")}, []Option{Set("\xff", "1")}}
	case reflect.TypeOf([]string{}):
		return []any{[]string(nil), []string{""}, []string{"\x00", "\xff"}, []string{strings.Repeat("x", 1<<17)}}
	case reflect.TypeOf((func(*Transaction) error)(nil)):
		return []any{nil, func(*Transaction) error { return nil }, func(tx *Transaction) error { return tx.Watch("") }}
	case reflect.TypeOf([]*Lock{}):
		foreign, _ := client.Mutex("nonsense:member")
		return []any{[]*Lock(nil), []*Lock{nil}, []*Lock{{}}, []*Lock{foreign, foreign}, make([]*Lock, 100)}
	}
	return nil
}

// TestNonsense: every method of every type with all combinations of odd values, on nil, on zero values and on real ones. None
// panics, and the client works afterwards.
func TestNonsense(t *testing.T) {
	client := open(t, shared)
	lock := mutex(t, client, "nonsense")
	seats, _ := client.Semaphore("nonsense:seats")
	latch, _ := client.Latch("nonsense:latch")
	grant := held(t, mutex(t, client, "nonsense:held"))
	calls := 0
	for _, receiver := range []any{
		(*Client)(nil), &Client{}, client, (*Lock)(nil), &Lock{}, lock, (*Semaphore)(nil), &Semaphore{}, seats,
		(*Latch)(nil), &Latch{}, latch, (*Grant)(nil), &Grant{}, grant, (*Transaction)(nil), &Transaction{}, (*Error)(nil), &Error{}, Status(math.MinInt32),
	} {
		value := reflect.ValueOf(receiver)
		for m := 0; m < value.NumMethod(); m++ {
			name := value.Type().Method(m).Name
			if receiver == any(client) && name == "Close" || receiver == any((*Error)(nil)) {
				continue
			}
			calls += call(t, fmt.Sprintf("%T.%s", receiver, name), value.Method(m), client, nil)
		}
	}
	if calls < 300 {
		t.Errorf("%d calls", calls)
	}
	unlock(t, held(t, mutex(t, client, "nonsense:after")))
}

// call calls f with all combinations of values for the parameters that follow those given.
func call(t *testing.T, name string, f reflect.Value, client *Client, given []reflect.Value) (calls int) {
	kind := f.Type()
	if len(given) == kind.NumIn() {
		defer func() {
			if reason := recover(); reason != nil {
				t.Errorf("%s%v: %v", name, given, reason)
			}
		}()
		if kind.IsVariadic() {
			f.CallSlice(given)
		} else {
			f.Call(given)
		}
		return 1
	}
	next := kind.In(len(given))
	values := nonsense(next, client)
	if values == nil {
		t.Errorf("%s: nothing for %v", name, next)
	}
	for _, value := range values {
		argument := reflect.Zero(next)
		if value != nil {
			argument = reflect.ValueOf(value)
		}
		calls += call(t, name, f, client, append(given[:len(given):len(given)], argument))
	}
	return calls
}
