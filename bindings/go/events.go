package dlock

// #include <dlock.h>
import "C"

import (
	"time"
	"unsafe"
)

// An EventType says what an Event tells.
type EventType int32

// What is told to Events. More may be added.
const (
	AtRisk EventType = C.DLOCK_EVENT_AT_RISK // renewal is failing; Remaining says how long the lock is still held
	Lost   EventType = C.DLOCK_EVENT_LOST    // Cause says why
	Log    EventType = C.DLOCK_EVENT_LOG     // trouble with the server, or its end
)

// A Cause says why a grant was lost.
type Cause int32

// Causes. More may be added.
const (
	Expired        Cause = C.DLOCK_CAUSE_EXPIRED  // it could not be renewed in time
	Taken          Cause = C.DLOCK_CAUSE_TAKEN    // it was released by force, or its key is gone
	MaxHoldOver    Cause = C.DLOCK_CAUSE_MAX_HOLD // the option MaxHold
	ClosedByHolder Cause = C.DLOCK_CAUSE_CLOSED   // the client was closed
)

// An Event is news of a client, for logs and dashboards. Who holds a lock hears of its loss by Grant.Context.
type Event struct {
	Type      EventType
	Status    Status        // Log: what the trouble is
	Lock      string        // AtRisk, Lost: the name
	Token     int64         // AtRisk, Lost: of the grant
	Remaining time.Duration // AtRisk
	Cause     Cause         // Lost
	Text      string        // one sentence
}

// Events returns the channel of a client's news; it is the same at each call, and is closed when the client is. What nobody
// takes is dropped once 256 events wait.
func (c *Client) Events() <-chan Event {
	core, err := c.live()
	if err != nil {
		never := make(chan Event)
		close(never)
		return never
	}
	core.mutex.Lock()
	defer core.mutex.Unlock()
	if core.events == nil {
		core.events = make(chan Event, eventRoom)
		if core.ended {
			close(core.events)
		}
	}
	return core.events
}

func (c *core) publish(f *[C.DLOCK_FIELD_COUNT]C.int64_t, g *Grant, text string) {
	event := Event{
		Type: EventType(f[C.DLOCK_FIELD_TYPE]), Status: Status(f[C.DLOCK_FIELD_STATUS]), Text: text,
		Cause: Cause(f[C.DLOCK_FIELD_CAUSE]), Remaining: duration(f[C.DLOCK_FIELD_REMAINING_MS]),
	}
	if g != nil {
		event.Lock, event.Token = g.lock.name, int64(f[C.DLOCK_FIELD_TOKEN])
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	select {
	case c.events <- event: // never, while nobody has asked for the channel
	default:
	}
}

// duration is a time of the library's; unknown, -1 there, is 0.
func duration(ms C.int64_t) time.Duration {
	if ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// Stats are the counters of a client. All but the last three only grow.
type Stats struct {
	Acquired, WireGrants, PushedGrants, Handovers, Released, Lost, Renewed, RenewalsLate, RenewalScripts, Undone,
	Commands, Connects, ConnectFailures, ScriptReloads, EventsDropped, Held, Waiting, Locks int64
}

// Stats returns the counters of this client.
func (c *Client) Stats() (Stats, error) {
	var stats Stats // its fields are in the order of DLOCK_STAT
	err := c.call(func(handle *C.dlock_client, box *C.dlock_error) C.dlock_status {
		return C.dlock_client_stats(handle, (*C.int64_t)(unsafe.Pointer(&stats)), C.size_t(unsafe.Sizeof(stats)/8), nil, box)
	})
	return stats, err
}
