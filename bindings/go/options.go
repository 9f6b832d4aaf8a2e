package dlock

// #include <dlock.h>
// #include <stdlib.h>
import "C"

import (
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// An Option changes how a client or a lock behaves. A lock's options win over its client's, and those over the ones in
// the URL.
type Option struct{ name, value string }

// Set sets any option of the library from text: Set("safety_ms", "500"). dlock.h and the manual list them.
func Set(name, value string) Option { return Option{name, value} }

// Lease is how long the server keeps a lock that is not renewed, 30 seconds unless set. It is also how long others wait
// when the process of the holder dies.
func Lease(d time.Duration) Option { return Option{"lease_ms", strconv.FormatInt(milliseconds(d), 10)} }

// MaxHold is the longest time a lock is renewed before it counts as lost. There is no limit unless set.
func MaxHold(d time.Duration) Option {
	return Option{"max_hold_ms", strconv.FormatInt(milliseconds(d), 10)}
}

// Renew says whether a held lock is renewed until it is unlocked, which it is unless set to false.
func Renew(on bool) Option { return Option{"renew", strconv.FormatBool(on)} }

// milliseconds rounds up; what is negative means no limit to the library, or is refused by it.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return int64(d) >> 63
	}
	return int64((d-1)/time.Millisecond) + 1
}

// text is s for C, which would not see what follows a NUL. The caller frees it.
func text(s, what string) (*C.char, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, invalid("a NUL in the " + what)
	}
	return C.CString(s), nil
}

// withOptions calls f with a set of options, NULL when there are none.
func withOptions(options []Option, f func(set *C.dlock_options) error) error {
	if len(options) == 0 {
		return f(nil)
	}
	set := C.dlock_options_new()
	if set == nil {
		return failure(ErrOutOfMemory, "")
	}
	defer C.dlock_options_free(set)
	for _, option := range options {
		if err := option.put(set); err != nil {
			return err
		}
	}
	return f(set)
}

func (o Option) put(set *C.dlock_options) error {
	name, err := text(o.name, "name of an option")
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(name))
	value, err := text(o.value, "option "+o.name)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(value))
	return call(func(box *C.dlock_error) C.dlock_status { return C.dlock_options_set(set, name, value, box) })
}
