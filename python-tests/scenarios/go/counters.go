package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// counterVerbs adds the verbs of semaphores and latches. A lock that is no semaphore in Go has no verbs of one.
func counterVerbs() {
	changed := func(f func(*dlock.Semaphore, context.Context, int) error) verb {
		return func(w []string) string {
			s := locks[w[0]].semaphore
			if s == nil {
				return status(errAbsent)
			}
			return status(f(s, ctx, int(number(w[1]))))
		}
	}
	counted := func(f func(*dlock.Semaphore, context.Context) (int64, error)) verb {
		return func(w []string) string {
			s := locks[w[0]].semaphore
			if s == nil {
				return status(errAbsent)
			}
			value, err := f(s, ctx)
			return valued("value", value, err)
		}
	}
	verbs["set"] = changed((*dlock.Semaphore).SetPermits)
	verbs["drain"] = counted((*dlock.Semaphore).DrainPermits)
	verbs["available"] = counted((*dlock.Semaphore).AvailablePermits)
	verbs["add"] = func(w []string) string {
		return counted(func(s *dlock.Semaphore, ctx context.Context) (int64, error) {
			return s.AddPermits(ctx, int(number(w[1])))
		})(w)
	}
	verbs["reclaim"] = func(w []string) string {
		return counted(func(s *dlock.Semaphore, ctx context.Context) (int64, error) {
			return s.ReclaimPermits(ctx, time.Duration(number(w[1]))*time.Millisecond)
		})(w)
	}
	verbs["permit"] = func(w []string) string {
		g, err := grantOf(w[0], w[1])
		if err != nil {
			return status(err)
		}
		id, err := g.PermitID(int(number(w[2])))
		return valued("digits", len(id), err)
	}
	latchVerbs()
}

func latchVerbs() {
	verbs["count"] = func(w []string) string {
		l := locks[w[0]].latch
		if l == nil {
			return status(errAbsent)
		}
		return status(l.SetCount(ctx, int(number(w[1]))))
	}
	verbs["down"] = func(w []string) string {
		l := locks[w[0]].latch
		if l == nil {
			return status(errAbsent)
		}
		left, err := l.CountDown(ctx, int(number(w[1])))
		return valued("value", left, err)
	}
	verbs["left"] = func(w []string) string {
		l := locks[w[0]].latch
		if l == nil {
			return status(errAbsent)
		}
		left, err := l.Count(ctx)
		return valued("value", left, err)
	}
}

// ---- a counter in Redis: read, then written, by plain commands of a connection of its own

type redis struct {
	conn    net.Conn
	replies *bufio.Reader
}

// command returns what the answer is: a number, 0 for none.
func (r *redis) command(format string, arguments ...any) (int64, error) {
	fmt.Fprintf(r.conn, format+"\r\n", arguments...)
	line, err := r.replies.ReadString('\n')
	if err != nil || line[0] == '-' {
		return 0, fmt.Errorf("redis: %s %w", line, err)
	}
	if line[0] != '$' || line[1] == '-' {
		return 0, nil
	}
	line, err = r.replies.ReadString('\n')
	return number(strings.TrimSpace(line)), err
}

// doWork adds one to the counter so many times, each time alone, and notes the token.
func doWork(w []string) string {
	conn, err := net.Dial("unix", w[3])
	if err != nil {
		return status(err)
	}
	defer conn.Close()
	r := &redis{conn, bufio.NewReader(conn)}
	for done := int64(0); done < number(w[2]); done++ {
		a := locks[w[0]].acquire(ctx, "20000")
		if a.err != nil {
			return status(a.err)
		}
		n, err := r.command("GET witness:counter")
		if err == nil {
			_, err = r.command("SET witness:counter %d", n+1)
		}
		if err == nil {
			_, err = r.command("RPUSH witness:tokens %d", a.grant.Token())
		}
		if err == nil {
			err = a.grant.Unlock(ctx)
		}
		if err != nil {
			return status(err)
		}
	}
	return valued("done", w[2], nil)
}
