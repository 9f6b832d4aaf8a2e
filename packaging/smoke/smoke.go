// What smoke.sh asks of the Go binding.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := dlock.Open(os.Getenv("DLOCK_URL"))
	check(err)
	lock, err := client.Mutex("smoke-go", dlock.Lease(1500*time.Millisecond))
	check(err)
	grant, err := lock.Lock(ctx)
	check(err)
	first := grant.Token()
	check(lock.ForceUnlock(ctx))
	select {
	case <-grant.Context().Done():
	case <-ctx.Done():
		log.Fatal("the loss was not heard")
	}
	grant, err = lock.Lock(ctx)
	check(err)
	if grant.Token() <= first {
		log.Fatalf("token %d after %d", grant.Token(), first)
	}
	check(grant.Unlock(ctx))
	check(client.Close())
	fmt.Println("go: tokens", first, "and", grant.Token())
}
