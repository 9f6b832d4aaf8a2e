package dlocktest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/dlocktest"
)

const while = 20 * time.Second // longer than anything here takes

// A program: it works while it holds the lock, and stops when the lock is lost.
func work(ctx context.Context, client *dlock.Client, begun chan<- int64) error {
	lock, err := client.Mutex("sale")
	if err != nil {
		return err
	}
	grant, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	begun <- grant.Token()
	<-grant.Context().Done()
	if err := grant.Err(); err != nil {
		return err // what was done since then must not count
	}
	return grant.Unlock(ctx)
}

// begin runs the program until it holds the lock.
func begin(t *testing.T, memory *dlocktest.Memory, options ...dlock.Option) (<-chan error, int64) {
	t.Helper()
	client, err := dlock.Open(memory.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), while)
	t.Cleanup(func() { cancel(); client.Close() })
	ended, begun := make(chan error, 1), make(chan int64, 1)
	go func() { ended <- work(ctx, client, begun) }()
	select {
	case token := <-begun:
		return ended, token
	case err := <-ended:
		t.Fatal(err)
	}
	return nil, 0
}

func lost(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, dlock.ErrLost) {
			t.Fatal(err)
		}
	case <-time.After(while):
		t.Fatal("the program goes on")
	}
}

func next(t *testing.T, memory *dlocktest.Memory, token int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), while)
	defer cancel()
	lock, err := memory.Client.Mutex("sale")
	if err != nil {
		t.Fatal(err)
	}
	grant, err := lock.Lock(ctx)
	if err != nil || grant.Token() <= token {
		t.Fatal(err, grant.Token(), token)
	}
}

func TestAProgramHandlesItsLoss(t *testing.T) {
	memory := dlocktest.New(t)
	ended, token := begin(t, memory)
	memory.Lose("sale")
	lost(t, ended)
	next(t, memory, token)
}

func TestAProgramHandlesEachFault(t *testing.T) {
	for name, fault := range map[string]func(*dlocktest.Memory){
		"renewals":    func(m *dlocktest.Memory) { m.FailRenewals("", dlocktest.Forever) },
		"of one lock": func(m *dlocktest.Memory) { m.FailRenewals("sale", while) },
		"cut":         func(m *dlocktest.Memory) { m.Cut(dlocktest.Forever) },
		"pause":       func(m *dlocktest.Memory) { m.Pause(dlocktest.Forever) },
		"denied":      func(m *dlocktest.Memory) { m.Deny("sale", dlocktest.Forever) },
		"delay":       func(m *dlocktest.Memory) { m.Delay(while) },
		"clock":       func(m *dlocktest.Memory) { m.Jump(time.Hour) },
	} {
		fault := fault
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := dlocktest.New(t)
			ended, token := begin(t, memory, dlock.Lease(500*time.Millisecond))
			fault(memory)
			lost(t, ended)
			memory.Heal()
			next(t, memory, token)
		})
	}
}

func TestARealServerHasNoFaults(t *testing.T) {
	client, err := dlock.Open("redis://localhost:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Fault("lose", "sale", 0); !errors.Is(err, dlock.ErrUnsupported) {
		t.Fatal(err)
	}
}
