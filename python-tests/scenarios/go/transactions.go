package main

import (
	"errors"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// transaction is the function of a transaction, in a goroutine that executes one step at a time.
type transaction struct {
	client *dlock.Client
	steps  chan func(*dlock.Transaction) (string, error) // an error ends the transaction
	said   chan string
	open   bool
}

var (
	transactions = map[string]*transaction{}

	errCommit   = errors.New("commit")
	errRollback = errors.New("rollback")
)

// begin begins a transaction that watches a key.
func (t *transaction) begin(key string) string {
	t.steps, t.said, t.open = make(chan func(*dlock.Transaction) (string, error)), make(chan string), true
	go func() {
		var again bool
		err := t.client.Transaction(ctx, func(inside *dlock.Transaction) error {
			if again {
				return dlock.ErrBusy // it would be done again, after a conflict
			}
			again = true
			t.said <- "OK"
			for step := range t.steps {
				said, err := step(inside)
				switch err {
				case nil:
					t.said <- said
				case errCommit:
					return nil
				default:
					return err
				}
			}
			return errRollback
		}, key)
		switch {
		case err == errRollback:
			t.said <- "OK"
		case err == error(dlock.ErrBusy):
			t.said <- "CONFLICT"
		default:
			t.said <- status(err)
		}
	}()
	said := <-t.said
	t.open = said == "OK"
	return said
}

// inside is a verb that does something with an open transaction.
func inside(f func(inside *dlock.Transaction, w []string) (string, error)) verb {
	return func(w []string) string {
		t := transactions[w[0]]
		if t == nil || !t.open {
			return status(errAbsent)
		}
		t.steps <- func(inside *dlock.Transaction) (string, error) {
			said, err := f(inside, w[1:])
			t.open = err == nil
			return said, err
		}
		return <-t.said
	}
}

func transactionVerbs() {
	verbs["txn"] = func(w []string) string {
		transactions[w[1]] = &transaction{client: clients[w[0]].Client}
		return "OK"
	}
	watching := inside(func(t *dlock.Transaction, w []string) (string, error) { return status(t.Watch(w[0])), nil })
	verbs["watch"] = func(w []string) string {
		if t := transactions[w[0]]; !t.open {
			return t.begin(w[1])
		}
		return watching(w)
	}
	verbs["get"] = inside(func(t *dlock.Transaction, w []string) (string, error) {
		value, err := t.Get(w[0])
		return valued("value", string(value), err), nil
	})
	verbs["put"] = inside(func(t *dlock.Transaction, w []string) (string, error) {
		ttl := "0"
		if len(w) > 2 {
			ttl = w[2]
		}
		return status(t.Set(w[0], []byte(w[1]), milliseconds(ttl))), nil
	})
	verbs["incr"] = inside(func(t *dlock.Transaction, w []string) (string, error) {
		return status(t.Incr(w[0], number(w[1]))), nil
	})
	verbs["delete"] = inside(func(t *dlock.Transaction, w []string) (string, error) { return status(t.Delete(w[0])), nil })
	verbs["commit"] = inside(func(*dlock.Transaction, []string) (string, error) { return "", errCommit })
	verbs["rollback"] = inside(func(*dlock.Transaction, []string) (string, error) { return "", errRollback })
}

// resetTransactions ends what is open.
func resetTransactions() {
	for _, t := range transactions {
		if t.open {
			close(t.steps)
			<-t.said
		}
	}
	transactions = map[string]*transaction{}
}
