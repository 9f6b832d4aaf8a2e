package dlock

// #include <dlock.h>
import "C"

import (
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// An Option changes how a client or a lock behaves. A lock's options win over its client's.
type Option struct{ name, value string }

// Set sets any option of the library from text: Set("safety_ms", "500"). The library's manual lists them.
func Set(name, value string) Option { return Option{name, value} }

// Lease is how long the server keeps a lock without renewal, 30 seconds unless set: so long others wait when the holder's
// process dies.
func Lease(d time.Duration) Option { return Option{"lease_ms", strconv.FormatInt(milliseconds(d), 10)} }

// MaxHold is the longest time a lock is renewed before it counts as lost. There is no limit unless set.
func MaxHold(d time.Duration) Option {
	return Option{"max_hold_ms", strconv.FormatInt(milliseconds(d), 10)}
}

// Renew says whether a held lock is renewed until it is unlocked, which is so unless set to false.
func Renew(on bool) Option { return Option{"renew", strconv.FormatBool(on)} }

// Permits is how many permits of a semaphore one acquisition takes, 1 unless set.
func Permits(n int) Option { return Option{"permits", strconv.Itoa(n)} }

// milliseconds rounds up; everything negative is -1.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return int64(d) >> 63
	}
	return int64((d-1)/time.Millisecond) + 1
}

// duration is a time of the library's; -1, which is unknown there, is 0.
func duration(ms C.int64_t) time.Duration {
	if ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// cString is s for one call of the library, which does not see what follows a NUL.
func cString(s string) *C.char { return (*C.char)(unsafe.Pointer(&append([]byte(s), 0)[0])) }

// newSet is a set of options for the library, nil for none. The caller frees it.
func newSet(options []Option) (*C.dlock_options, error) {
	if len(options) == 0 {
		return nil, nil
	}
	set := C.dlock_options_new()
	if set == nil {
		return nil, ErrOutOfMemory
	}
	for _, option := range options {
		if err := option.put(set); err != nil {
			C.dlock_options_free(set)
			return nil, err
		}
	}
	return set, nil
}

func (o Option) put(set *C.dlock_options) error {
	if strings.Contains(o.name+o.value, "\x00") {
		return invalid("a NUL in an option")
	}
	b := quickBox()
	return b.done(C.dlock_options_set(set, cString(o.name), cString(o.value), b.c), nil)
}
