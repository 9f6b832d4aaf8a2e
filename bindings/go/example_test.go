package dlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// Here and below REDIS_URL is redis://localhost:6379, for example.
func Example() {
	ctx := context.Background()
	client, err := dlock.Open(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, err := client.Mutex("sale")
	if err != nil {
		log.Fatal(err)
	}
	grant, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer grant.Unlock(ctx)
	fmt.Println("mine, with a token:", grant.Token() > 0)
	// Output: mine, with a token: true
}

// Long work uses the context of the grant, which ends when the lock is lost.
func ExampleGrant_Context() {
	client, err := dlock.Open(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, _ := client.Mutex("report", dlock.Lease(time.Second))
	grant, err := lock.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer grant.Unlock(context.Background())

	go lock.ForceUnlock(context.Background()) // somebody takes it away
	select {
	case <-grant.Context().Done():
		fmt.Println("lost:", errors.Is(grant.Err(), dlock.ErrLost))
	case <-time.After(time.Minute):
		fmt.Println("the work is done")
	}
	// Output: lost: true
}

func ExampleLock_TryLock() {
	ctx := context.Background()
	client, err := dlock.Open(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, _ := client.Mutex("nightly")
	grant, err := lock.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer grant.Unlock(ctx)

	if _, err := lock.TryLock(ctx); errors.Is(err, dlock.ErrBusy) {
		fmt.Println("somebody else is doing it")
	}
	// Output: somebody else is doing it
}

func ExampleLock_LockWithin() {
	ctx := context.Background()
	client, err := dlock.Open(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, _ := client.Mutex("seat:12")
	grant, err := lock.LockWithin(ctx, 3*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer grant.Unlock(ctx)

	_, err = lock.LockWithin(ctx, 10*time.Millisecond)
	var e *dlock.Error
	if errors.As(err, &e) {
		fmt.Println(e.Status.Name())
	}
	// Output: TIMED_OUT
}

func ExampleClient_Events() {
	client, err := dlock.Open(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	events := client.Events()
	done := make(chan struct{})
	go func() {
		for event := range events {
			log.Println(event.Text)
		}
		close(done)
	}()
	client.Close()
	<-done
	fmt.Println("closed")
	// Output: closed
}

func ExampleClient_Transaction() {
	ctx := context.Background()
	client, err := dlock.Open(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	left := 0
	err = client.Transaction(ctx, func(tx *dlock.Transaction) error { // tried again when "stock" was changed meanwhile
		value, err := tx.Get("stock")
		if err != nil && !errors.Is(err, dlock.ErrNotFound) {
			return err
		}
		if left, err = strconv.Atoi(string(value)); err != nil {
			left = 20
		}
		left--
		return tx.Set("stock", []byte(strconv.Itoa(left)), 0)
	}, "stock")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("left:", left)
	// Output: left: 19
}
