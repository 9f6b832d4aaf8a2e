// A program with Go's clientv3/concurrency, the other side of tests: it reads lines and answers each.
//
//	lock WORD NAME    "WORD locked REVISION": the mutex is held; the answer may come later
//	try WORD NAME     the same, or "WORD busy"
//	unlock WORD       "WORD unlocked"
//	hold WORD NAME TIMES MICROSECONDS    lock and unlock; a line "WORD held REVISION FROM TO" for each, then "WORD done"
//	pairs WORD NAME FROM TO    lock and unlock, in a session of its own; "WORD pairs NUMBER MEDIAN" of those between these times
//
// Times are those of CLOCK_BOOTTIME in microseconds. Usage: peer ENDPOINT TTL
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sys/unix"
)

var (
	out   sync.Mutex
	locks = map[string]*concurrency.Mutex{}
)

func say(format string, values ...any) {
	out.Lock()
	defer out.Unlock()
	fmt.Printf(format+"\n", values...)
}

func check(err error) {
	if err != nil {
		say("failed %v", err)
		os.Exit(1)
	}
}

func now() int64 {
	var time unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_BOOTTIME, &time))
	return time.Nano() / 1000
}

// What tokens are compared with. Mutex.Header().Revision is that of the request which put the key, or of a later one that waited.
func created(client *clientv3.Client, mutex *concurrency.Mutex) int64 {
	found, err := client.Get(context.Background(), mutex.Key())
	check(err)
	if len(found.Kvs) == 0 {
		return 0
	}
	return found.Kvs[0].CreateRevision
}

func hold(session *concurrency.Session, word, name string, times, micros int) {
	for i := 0; i < times; i++ {
		mutex := concurrency.NewMutex(session, name)
		check(mutex.Lock(context.Background()))
		from := now()
		time.Sleep(time.Duration(micros) * time.Microsecond)
		say("%s held %d %d %d", word, created(session.Client(), mutex), from, now())
		check(mutex.Unlock(context.Background()))
	}
	say("%s done", word)
}

func pairs(client *clientv3.Client, ttl int, word, name string, from, to int64) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	check(err)
	mutex := concurrency.NewMutex(session, name)
	took := []int64{0}
	for began := now(); began < to; began = now() {
		check(mutex.Lock(context.Background()))
		check(mutex.Unlock(context.Background()))
		if began >= from {
			took = append(took, now()-began)
		}
	}
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	say("%s pairs %d %d", word, len(took)-1, took[len(took)/2])
	check(session.Close())
}

func take(client *clientv3.Client, mutex *concurrency.Mutex, word string, wait bool) {
	var err error
	if wait {
		err = mutex.Lock(context.Background())
	} else {
		err = mutex.TryLock(context.Background())
	}
	if errors.Is(err, concurrency.ErrLocked) {
		say("%s busy", word)
		return
	}
	check(err)
	say("%s locked %d %d", word, created(client, mutex), now())
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: 5 * time.Second})
	check(err)
	ttl, err := strconv.Atoi(os.Args[2])
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	check(err)
	say("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "lock", "try":
			mutex := concurrency.NewMutex(session, words[2])
			locks[words[1]] = mutex
			go take(client, mutex, words[1], words[0] == "lock")
		case "unlock":
			check(locks[words[1]].Unlock(context.Background()))
			say("%s unlocked %d", words[1], now())
		case "hold":
			times, _ := strconv.Atoi(words[3])
			micros, _ := strconv.Atoi(words[4])
			go hold(session, words[1], words[2], times, micros)
		case "pairs":
			from, _ := strconv.ParseInt(words[3], 10, 64)
			to, _ := strconv.ParseInt(words[4], 10, 64)
			go pairs(client, ttl, words[1], words[2], from, to)
		}
	}
	check(session.Close())
}
