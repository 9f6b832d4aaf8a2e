// The Go runner of the scenario table. README.md in the folder above lists the lines that it answers.
//
// In Go there are no owner numbers: each grant is an owner of its own. An owner of the table is a name for what it was
// granted last, and verbs about an owner that was never granted anything are ABSENT.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

const patience = 20 * time.Second

var ctx = context.Background()

// errAbsent: there is no such thing in Go.
var errAbsent = errors.New("ABSENT")

type client struct {
	*dlock.Client
	lost []dlock.Event // of losses that were not reported yet
}

// gated is what locks of every kind have.
type gated interface {
	CloseGate(context.Context, time.Duration) error
	OpenGate(context.Context) error
}

type lock struct {
	gated
	lock      *dlock.Lock // nil when it is one of the following
	semaphore *dlock.Semaphore
	latch     *dlock.Latch
	grants    map[string]*dlock.Grant // by owner, the last ones
}

// answer is how a wait ended. A latch gives no grant.
type answer struct {
	grant *dlock.Grant
	err   error
}

type waiting struct {
	lock   *lock
	owner  string
	cancel context.CancelFunc
	done   chan answer
}

var (
	clients = map[string]*client{}
	locks   = map[string]*lock{}
	waits   = map[string]*waiting{}
	exports = map[string][]byte{}
)

// ---- arguments

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func milliseconds(word string) time.Duration { return time.Duration(number(word)) * time.Millisecond }

func options(words []string) []dlock.Option {
	var set []dlock.Option
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		set = append(set, dlock.Set(name, value))
	}
	return set
}

// ---- answers

// status is the name of what an error says.
func status(err error) string {
	var e *dlock.Error
	switch {
	case err == nil:
		return "OK"
	case err == errAbsent:
		return "ABSENT"
	case errors.As(err, &e):
		return e.Status.Name()
	}
	return strings.ReplaceAll(err.Error(), " ", "_")
}

func valued(name string, value any, err error) string {
	if err != nil {
		return status(err)
	}
	return fmt.Sprintf("OK %s=%v", name, value)
}

// ---- grants

func (l *lock) acquire(ctx context.Context, wait string) (a answer) {
	within := milliseconds(wait)
	switch {
	case l.latch != nil && wait == "-1":
		a.err = l.latch.Wait(ctx)
	case l.latch != nil:
		a.err = l.latch.WaitWithin(ctx, within)
	case l.semaphore != nil && wait == "-1":
		a.grant, a.err = l.semaphore.Acquire(ctx)
	case l.semaphore != nil && wait == "0":
		a.grant, a.err = l.semaphore.TryAcquire(ctx)
	case l.semaphore != nil:
		a.grant, a.err = l.semaphore.AcquireWithin(ctx, within)
	case wait == "-1":
		a.grant, a.err = l.lock.Lock(ctx)
	case wait == "0":
		a.grant, a.err = l.lock.TryLock(ctx)
	default:
		a.grant, a.err = l.lock.LockWithin(ctx, within)
	}
	return a
}

// store keeps a grant as the owner's.
func (l *lock) store(owner string, a answer) string {
	if a.err != nil || a.grant == nil {
		return status(a.err)
	}
	l.grants[owner] = a.grant
	return valued("token", a.grant.Token(), nil)
}

func grantOf(name, owner string) (*dlock.Grant, error) {
	if g := locks[name].grants[owner]; g != nil {
		return g, nil
	}
	return nil, errAbsent
}

// held is the grant that an owner still has.
func held(name, owner string) (*dlock.Grant, error) {
	g, err := grantOf(name, owner)
	if err == nil {
		err = g.Err()
	}
	return g, err
}

func stateOf(name, owner string) string {
	_, err := held(name, owner)
	switch {
	case err == nil:
		return "OK state=HELD"
	case errors.Is(err, dlock.ErrNotHeld):
		return "OK state=NONE"
	case errors.Is(err, dlock.ErrLost):
		return "OK state=LOST"
	}
	return status(err)
}

func remaining(name, owner string) string {
	g, err := held(name, owner)
	if err != nil {
		return status(err)
	}
	left := g.Remaining()
	if left == math.MaxInt64 {
		return "OK remaining=-1"
	}
	return valued("remaining", left.Milliseconds(), nil)
}

// ---- verbs

type verb func(w []string) string

var verbs map[string]verb

func init() {
	verbs = map[string]verb{
		"client": doClient, "close": doClose, "ping": doPing, "stats": doStats, "metric": doMetric, "lost": doLost, "reset": doReset,
		"lock": doLock, "multi": doMulti, "acquire": doAcquire, "release": doRelease, "begin": doBegin, "end": doEnd,
		"cancel": doCancel, "inspect": doInspect, "export": doExport, "adopt": doAdopt, "work": doWork,
		"check":      doCheck,
		"fault":      func(w []string) string { return status(clients[w[0]].Fault(w[1], w[2], number(w[3]))) },
		"provision":  func(w []string) string { return status(clients[w[0]].Provision(ctx)) },
		"state":      func(w []string) string { return stateOf(w[0], w[1]) },
		"remaining":  func(w []string) string { return remaining(w[0], w[1]) },
		"close_gate": func(w []string) string { return status(locks[w[0]].CloseGate(ctx, milliseconds(w[1]))) },
		"open_gate":  func(w []string) string { return status(locks[w[0]].OpenGate(ctx)) },
		"token": func(w []string) string {
			g, err := held(w[0], w[1])
			return valued("token", g.Token(), err)
		},
		"extend": func(w []string) string {
			g, err := grantOf(w[0], w[1])
			if err == nil {
				err = g.Extend(ctx, milliseconds(w[2]))
			}
			return status(err)
		},
		"force": func(w []string) string {
			if locks[w[0]].lock == nil {
				return status(errAbsent)
			}
			return status(locks[w[0]].lock.ForceUnlock(ctx))
		},
	}
	counterVerbs()
	transactionVerbs()
}

func doClient(w []string) string {
	c, err := dlock.Open(w[1], options(w[2:])...)
	if err == nil {
		clients[w[0]] = &client{Client: c}
	}
	return status(err)
}

func doClose(w []string) string { return status(clients[w[0]].Close()) }
func doPing(w []string) string  { return status(clients[w[0]].Ping(ctx)) }

func doStats(w []string) string {
	stats, err := clients[w[0]].Stats()
	if err != nil {
		return status(err)
	}
	return fmt.Sprintf("OK held=%d waiting=%d", stats.Held, stats.Waiting)
}

func doMetric(w []string) string {
	text, err := clients[w[0]].Metrics()
	if err != nil {
		return status(err)
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, w[1]+" ") {
			return "OK value=" + line[len(w[1])+1:]
		}
	}
	return "NOT_FOUND"
}

func doCheck(w []string) string {
	found, err := clients[w[0]].Check(ctx)
	names := "none"
	for i, finding := range found {
		if i == 0 {
			names = finding.Name
		} else {
			names += "," + finding.Name
		}
	}
	return valued("found", names, err)
}

func doLost(w []string) string {
	causes := map[dlock.Cause]string{dlock.CauseExpired: "EXPIRED", dlock.CauseTaken: "TAKEN",
		dlock.CauseMaxHold: "MAX_HOLD", dlock.CauseClosed: "CLOSED"}
	late := time.After(patience)
	for {
		select {
		case event, open := <-clients[w[0]].Events():
			if !open {
				return dlock.ErrClosed.Name()
			}
			if event.Type == dlock.EventLost {
				return fmt.Sprintf("OK token=%d cause=%s", event.Token, causes[event.Cause])
			}
		case <-late:
			return "NO_EVENT"
		}
	}
}

func doReset([]string) string {
	for _, c := range clients {
		_ = c.Close()
	}
	for _, w := range waits {
		w.cancel()
	}
	clients, locks = map[string]*client{}, map[string]*lock{}
	waits, exports = map[string]*waiting{}, map[string][]byte{}
	resetTransactions()
	return "OK"
}

func doLock(w []string) string {
	c, name, set := clients[w[0]], w[3], options(w[4:])
	l := &lock{grants: map[string]*dlock.Grant{}}
	var err error
	switch w[2] {
	case "mutex":
		l.lock, err = c.Mutex(name, set...)
	case "fair":
		l.lock, err = c.FairMutex(name, set...)
	case "read":
		l.lock, err = c.ReadLock(name, set...)
	case "write":
		l.lock, err = c.WriteLock(name, set...)
	case "semaphore":
		l.semaphore, err = c.Semaphore(name, set...)
	case "permit_semaphore":
		l.semaphore, err = c.PermitSemaphore(name, set...)
	case "latch":
		l.latch, err = c.Latch(name, set...)
	default:
		err = errAbsent
	}
	switch {
	case l.lock != nil:
		l.gated = l.lock
	case l.semaphore != nil:
		l.gated = l.semaphore
	default:
		l.gated = l.latch
	}
	if err == nil {
		locks[w[1]] = l
	}
	return status(err)
}

func doMulti(w []string) string {
	var members []*dlock.Lock
	for _, name := range w[2:] {
		if locks[name].lock == nil {
			return status(errAbsent)
		}
		members = append(members, locks[name].lock)
	}
	l, err := clients[w[0]].MultiLock(members...)
	if err == nil {
		locks[w[1]] = &lock{gated: l, lock: l, grants: map[string]*dlock.Grant{}}
	}
	return status(err)
}

func doAcquire(w []string) string {
	l := locks[w[0]]
	return l.store(w[1], l.acquire(ctx, w[2]))
}

func doRelease(w []string) string {
	g, err := grantOf(w[0], w[1])
	if err == nil {
		err = g.Unlock(ctx)
	}
	return status(err)
}

func doBegin(w []string) string {
	own, cancel := context.WithCancel(ctx)
	b := &waiting{lock: locks[w[1]], owner: w[2], cancel: cancel, done: make(chan answer, 1)}
	waits[w[0]] = b
	go func() { b.done <- b.lock.acquire(own, w[3]) }()
	return "OK"
}

func doEnd(w []string) string {
	b := waits[w[0]]
	return b.lock.store(b.owner, <-b.done)
}

func doCancel(w []string) string {
	waits[w[0]].cancel()
	return "OK"
}

func doInspect(w []string) string {
	l := locks[w[0]].lock
	if l == nil {
		return status(errAbsent)
	}
	seen, err := l.Inspect(ctx)
	if err != nil {
		return status(err)
	}
	bit := map[bool]int{true: 1}
	return fmt.Sprintf("OK free=%d waiters=%d foreign=%d", bit[seen.Holder == ""], seen.Waiters, bit[seen.Foreign])
}

func doExport(w []string) string {
	g, err := grantOf(w[0], w[1])
	if err == nil {
		exports[w[2]], err = g.Export()
	}
	return status(err)
}

func doAdopt(w []string) string {
	l := locks[w[0]]
	if l.lock == nil {
		return status(errAbsent)
	}
	g, err := l.lock.Adopt(ctx, exports[w[2]])
	return l.store(w[1], answer{g, err})
}

// ---- the loop

// word is any bytes: %XX is one of them, % alone none at all.
func word(text string) string {
	if text == "%" {
		return ""
	}
	plain, err := url.PathUnescape(text)
	if err != nil {
		panic(err)
	}
	return plain
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var w []string
		for _, text := range strings.Fields(lines.Text()) {
			w = append(w, word(text))
		}
		said := "ABSENT"
		if do := verbs[w[0]]; do != nil {
			said = do(w[1:])
		}
		fmt.Println(said)
	}
	doReset(nil)
}
