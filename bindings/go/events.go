package dlock

// #include <dlock.h>
import "C"

import (
	"time"
	"unsafe"
)

const eventRoom = 128

// An EventType says what an Event tells. Expect ones that have no constant here, from a newer library.
type EventType int32

// Types of events.
const (
	EventAtRisk EventType = C.DLOCK_EVENT_AT_RISK // renewal is failing
	EventLost   EventType = C.DLOCK_EVENT_LOST    // a held lock was lost
	EventLog    EventType = C.DLOCK_EVENT_LOG     // trouble with the server, or its end
)

// A Cause says why a held lock was lost. Expect ones that have no constant here, from a newer library.
type Cause int32

// Causes of losses.
const (
	CauseExpired Cause = C.DLOCK_CAUSE_EXPIRED  // it could not be renewed in time
	CauseTaken   Cause = C.DLOCK_CAUSE_TAKEN    // it was unlocked by force, or its key is gone
	CauseMaxHold Cause = C.DLOCK_CAUSE_MAX_HOLD // it was held for as long as the option MaxHold allows
	CauseClosed  Cause = C.DLOCK_CAUSE_CLOSED   // the client was closed
)

// An Event is news of a client, for logs and dashboards. Who holds a lock hears of its loss by Grant.Context.
type Event struct {
	Type      EventType
	Lock      string        // the name; "" in a log line
	Token     int64         // of the grant
	Remaining time.Duration // EventAtRisk: for how long the lock is still held
	Cause     Cause         // EventLost
	Status    Status        // EventLog: what the trouble is
	Text      string        // one sentence
}

// Events returns the channel of the client's news, which is closed when the client is. When 128 events wait, more are dropped.
func (c *Client) Events() <-chan Event {
	if c.c() == nil {
		return nil
	}
	return c.core.events
}

func (c *core) publish(f *[C.DLOCK_FIELD_COUNT]C.int64_t, g *Grant, text string) {
	event := Event{
		Type: EventType(f[C.DLOCK_FIELD_TYPE]), Remaining: duration(f[C.DLOCK_FIELD_REMAINING_MS]),
		Cause: Cause(f[C.DLOCK_FIELD_CAUSE]), Status: Status(f[C.DLOCK_FIELD_STATUS]), Text: text,
	}
	if g != nil {
		event.Lock, event.Token = g.lock.name, int64(f[C.DLOCK_FIELD_TOKEN])
	}
	select {
	case c.events <- event:
	default:
	}
}

// Stats are the counters of a client, in the order of DLOCK_STAT_*. All but the last three only grow.
type Stats struct {
	Acquired, WireGrants, PushedGrants, Handovers, Released, Lost, Renewed, RenewalsLate, RenewalScripts, Undone,
	Commands, Connects, ConnectFailures, ScriptReloads, EventsDropped, Held, Waiting, Locks int64
}

// Stats returns the counters of the client.
func (c *Client) Stats() (Stats, error) {
	var stats Stats
	b, values, count := quickBox(), (*C.int64_t)(unsafe.Pointer(&stats)), C.size_t(unsafe.Sizeof(stats)/8)
	err := b.done(C.dlock_client_stats(c.c(), values, count, nil, b.c), c)
	return stats, err
}
