package dlock

// #include <dlock.h>
import "C"

import (
	"context"
	"fmt"
	"runtime"
)

// A Status says how a call ended. Statuses are errors to compare with: errors.Is(err, dlock.ErrBusy). Expect ones that
// have no constant here, from a newer library.
type Status int32

// Error returns one sentence that says what the status means.
func (s Status) Error() string { return "dlock: " + s.text() }

// Name returns the name of the status, for example "TIMED_OUT"; "UNKNOWN" when the library does not have it.
func (s Status) Name() string { return C.GoString(C.dlock_status_name(C.dlock_status(s))) }

func (s Status) text() string { return C.GoString(C.dlock_status_text(C.dlock_status(s))) }

// Error is the type of all errors of this package.
type Error struct {
	Status  Status
	Message string // one sentence that names the lock, without credentials
	cause   error
}

// Error returns the message.
func (e *Error) Error() string { return "dlock: " + e.Message }

// Is reports whether target is the status of the error.
func (e *Error) Is(target error) bool { return target == error(e.Status) }

// Unwrap returns context.Canceled or context.DeadlineExceeded when a context ended the call.
func (e *Error) Unwrap() error { return e.cause }

func invalid(message string) error { return &Error{Status: ErrInvalidArgument, Message: message} }

// failure is an error that names the lock, if there is one.
func (l *Lock) failure(status Status) *Error {
	if l == nil {
		return &Error{Status: status, Message: status.text()}
	}
	return &Error{Status: status, Message: fmt.Sprintf("lock %q: %s", l.name, status.text())}
}

// ended is what a context that is over means for a call: cancelled or late. nil while it is not over.
func (l *Lock) ended(ctx context.Context, cancelled, late Status) error {
	if ctx == nil {
		return invalid("no context was given")
	}
	cause := ctx.Err()
	if cause == nil {
		return nil
	}
	if cause == context.DeadlineExceeded {
		cancelled = late
	}
	e := l.failure(cancelled)
	e.cause = cause
	return e
}

// box is an error box of the library, for one call.
type box struct {
	c     *C.dlock_error // NULL, without memory, is a box too
	quick bool
}

// boxes are for calls that never block. A call may lose its processor all the same; as there are only so few boxes, it is not
// a new thread for every goroutine that wants to make a call meanwhile.
var boxes = make(chan *box, 4)

func init() {
	for len(boxes) < cap(boxes) {
		boxes <- &box{C.dlock_error_new(), true}
	}
}

// quickBox is for calls that never block, blockingBox for others. The call is to be ended by done.
func quickBox() *box    { return <-boxes }
func blockingBox() *box { return &box{C.dlock_error_new(), false} }

// done is what the call came to that was given the box. What owns the handle that it used is kept alive until then.
func (b *box) done(status C.dlock_status, owner any) (err error) {
	if status != C.DLOCK_OK {
		err = &Error{Status: Status(status), Message: C.GoString(C.dlock_error_message(b.c))}
	}
	if b.quick {
		boxes <- b
	} else {
		C.dlock_error_free(b.c)
	}
	runtime.KeepAlive(owner)
	return err
}
