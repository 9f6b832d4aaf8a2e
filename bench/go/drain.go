package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// drain lets each of so many goroutines have one lock once. Measured from the unlock of who holds it, when all others wait,
// until the last one has unlocked it.
func drain(url string, goroutines int) error {
	ctx := context.Background()
	client, mutex, err := open(url)
	if err != nil {
		return err
	}
	held, err := mutex.Lock(ctx)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	failed := make([]error, goroutines)
	for i := range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			grant, err := mutex.Lock(ctx)
			if err == nil {
				err = grant.Unlock(ctx)
			}
			failed[i] = err
		}()
	}
	for waiting := int64(0); waiting < int64(goroutines); time.Sleep(time.Millisecond) {
		stats, err := client.Stats()
		if err != nil {
			return err
		}
		waiting = stats.Waiting
	}
	began := time.Now()
	if err = held.Unlock(ctx); err != nil {
		return err
	}
	all.Wait()
	fmt.Println("per_s", float64(goroutines)/time.Since(began).Seconds())
	threads, err := os.ReadDir("/proc/self/task")
	fmt.Println("threads", len(threads))
	return errors.Join(append(failed, err)...)
}
