// Command rivals runs a lock client for Go: rivals WAY URL GOROUTINES SECONDS own|one|pair|drain. own: each goroutine has its
// own lock; one: all share one lock; pair: one goroutine with this binding, and only the time in the lock calls is measured;
// drain: each goroutine has one lock once, with this binding. It prints "name value" lines, as the C programs do.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const lease = 30 * time.Second

// A lock waits until ctx ends, and returns what unlocks.
type lock func(ctx context.Context) (unlock func() error, err error)

// ways return what makes locks, each for one goroutine.
var ways = map[string]func(url string) (func(name string) lock, error){
	"dlock": binding, "redsync": redsyncLocks, "rueidislock": rueidisLocks, "redislock": bsmLocks,
}

func binding(url string) (func(string) lock, error) {
	client, err := dlock.Open(url)
	return func(name string) lock {
		mutex, err := client.Mutex(name)
		return func(ctx context.Context) (func() error, error) {
			if err != nil {
				return nil, err
			}
			grant, err := mutex.Lock(ctx)
			return func() error { return grant.Unlock(context.Background()) }, err
		}
	}, err
}

func goRedis(url string) redis.UniversalClient {
	if path, found := strings.CutPrefix(url, "redis+unix://"); found {
		return redis.NewClient(&redis.Options{Network: "unix", Addr: path})
	}
	return redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(url, "redis://")})
}

// redsyncLocks gives up after 32 attempts, as it comes; whoever waits on asks again.
func redsyncLocks(url string) (func(string) lock, error) {
	all := redsync.New(goredis.NewPool(goRedis(url)))
	return func(name string) lock {
		mutex := all.NewMutex(name, redsync.WithExpiry(lease))
		unlock := func() error {
			_, err := mutex.Unlock()
			return err
		}
		return func(ctx context.Context) (func() error, error) {
			for {
				err := mutex.LockContext(ctx)
				if err == nil || ctx.Err() != nil {
					return unlock, err
				}
			}
		}
	}, nil
}

// bsmLocks looks every 100 ms, as in its examples.
func bsmLocks(url string) (func(string) lock, error) {
	all := redislock.New(goRedis(url))
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	return func(name string) lock {
		return func(ctx context.Context) (func() error, error) {
			for {
				held, err := all.Obtain(ctx, name, lease, options)
				if err == nil || ctx.Err() != nil {
					return func() error { return held.Release(context.Background()) }, err
				}
			}
		}
	}, nil
}

// rueidisLocks unlocks by ending a context: when the key is gone is not known.
func rueidisLocks(url string) (func(string) lock, error) {
	option := rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true, KeyValidity: lease}
	option.ClientOption = rueidis.ClientOption{InitAddress: []string{strings.TrimPrefix(url, "redis://")}}
	all, err := rueidislock.NewLocker(option)
	return func(name string) lock {
		return func(ctx context.Context) (func() error, error) {
			_, cancel, err := all.WithContext(ctx, name)
			return func() error {
				cancel()
				return nil
			}, err
		}
	}, err
}

// ---- the work

type caller struct {
	mutex           sync.Mutex // guards what follows
	waits           []time.Duration
	pairs, handoffs int
	since           time.Time // of the wait that goes on
}

// run locks and unlocks until the time is over. last is who had the lock last, nil when not all have the same.
func (c *caller) run(ctx context.Context, index int, acquire lock, last *int) error {
	for ctx.Err() == nil {
		start := time.Now()
		c.mutex.Lock()
		c.since = start
		c.mutex.Unlock()
		unlock, err := acquire(ctx)
		took := time.Since(start)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		other := false
		if last != nil {
			other, *last = *last != index, index
		}
		if err := unlock(); err != nil {
			return err
		}
		if last == nil {
			took = time.Since(start)
		}
		c.mutex.Lock()
		c.waits, c.pairs, c.since = append(c.waits, took), c.pairs+1, time.Time{}
		if other {
			c.handoffs++
		}
		c.mutex.Unlock()
	}
	return nil
}

func measure(way, url string, goroutines int, seconds float64, shared bool) error {
	newLock, err := ways[way](url)
	if err != nil {
		return err
	}
	locks := make([]lock, goroutines)
	for i := range locks {
		name := fmt.Sprint("go:", os.Getpid())
		if !shared {
			name += fmt.Sprint(":", i)
		}
		locks[i] = newLock(name)
	}
	for range 50 { // connections, caches
		for _, one := range locks[:min(goroutines, 8)] {
			unlock, err := one(context.Background())
			if err == nil {
				err = unlock()
			}
			if err != nil {
				return err
			}
		}
	}
	var last *int
	if shared {
		last = new(int)
	}
	callers, failed := make([]caller, goroutines), make(chan error, goroutines)
	limit := time.Duration(seconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for i := range locks {
		go func() {
			if err := callers[i].run(ctx, i, locks[i], last); err != nil {
				failed <- err
			}
		}()
	}
	select { // not all clients return when the context ends
	case err := <-failed:
		return err
	case <-time.After(limit):
	}
	report(callers, seconds)
	return nil
}

// open returns a client, and the mutex of this process.
func open(url string) (*dlock.Client, *dlock.Lock, error) {
	client, err := dlock.Open(url)
	if err != nil {
		return nil, nil, err
	}
	mutex, err := client.Mutex(fmt.Sprint("go:", os.Getpid()))
	return client, mutex, err
}

// pair measures locking and unlocking with a context that can end.
func pair(url string, seconds float64) error {
	_, mutex, err := open(url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	only := make([]caller, 1)
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(end); {
		start := time.Now()
		grant, err := mutex.Lock(ctx)
		if err == nil {
			err = grant.Unlock(ctx)
		}
		took := time.Since(start)
		if err != nil {
			return err
		}
		only[0].waits, only[0].pairs = append(only[0].waits, took), only[0].pairs+1
	}
	report(only, seconds)
	return nil
}

func report(callers []caller, seconds float64) {
	var waits []time.Duration
	pairs, handoffs := 0, 0
	for i := range callers {
		c := &callers[i]
		c.mutex.Lock()
		waits, pairs, handoffs = append(waits, c.waits...), pairs+c.pairs, handoffs+c.handoffs
		if !c.since.IsZero() { // it has waited for that long at least
			waits = append(waits, time.Since(c.since))
		}
		c.mutex.Unlock()
	}
	slices.Sort(waits)
	micro := func(percent int) float64 { return float64(waits[(len(waits)-1)*percent/100].Nanoseconds()) / 1e3 }
	fmt.Println("per_s", float64(pairs)/seconds)
	fmt.Println("handoffs_per_s", float64(handoffs)/seconds)
	fmt.Println("p50", micro(50))
	fmt.Println("p99", micro(99))
}

func main() {
	goroutines, _ := strconv.Atoi(os.Args[3])
	seconds, _ := strconv.ParseFloat(os.Args[4], 64)
	var err error
	switch os.Args[5] {
	case "pair":
		err = pair(os.Args[2], seconds)
	case "drain":
		err = drain(os.Args[2], goroutines)
	default:
		err = measure(os.Args[1], os.Args[2], goroutines, seconds, os.Args[5] == "one")
	}
	if err != nil {
		log.Fatal(err)
	}
}
