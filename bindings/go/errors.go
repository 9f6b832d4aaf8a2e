package dlock

// #include <dlock.h>
import "C"

import (
	"context"
	"runtime"
	"strconv"
	"sync"
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
func (e *Error) Error() string {
	if e.cause != nil {
		return "dlock: " + e.Message + ": " + e.cause.Error()
	}
	return "dlock: " + e.Message
}

// Is reports whether target is the status of the error.
func (e *Error) Is(target error) bool { return target == error(e.Status) }

// Unwrap returns context.Canceled or context.DeadlineExceeded when a context ended the call.
func (e *Error) Unwrap() error { return e.cause }

func failure(status Status, message string) *Error {
	if message == "" {
		message = status.text()
	}
	return &Error{Status: status, Message: message}
}

func invalid(message string) error { return failure(ErrInvalidArgument, message) }

// failure is one that names the lock; nil is fine.
func (l *Lock) failure(status Status) *Error {
	if l == nil {
		return failure(status, "")
	}
	name := strconv.Quote(l.name)
	return failure(status, "lock '"+name[1:len(name)-1]+"': "+status.text())
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
	e := l.failure(cancelled)
	if cause == context.DeadlineExceeded {
		e = l.failure(late)
	}
	e.cause = cause
	return e
}

// box is an error box of the library. Boxes are used again; what the pool drops is freed.
type box struct{ c *C.dlock_error }

var boxes = sync.Pool{New: func() any {
	b := &box{C.dlock_error_new()} // NULL, without memory, is a box too
	runtime.SetFinalizer(b, func(b *box) { C.dlock_error_free(b.c) })
	return b
}}

func newBox() *box { return boxes.Get().(*box) }

// done is what a call came to that was given the box, which must not be used afterwards. What owns the handle that the
// call used is kept alive until then.
func (b *box) done(status C.dlock_status, owner any) (err error) {
	if status != C.DLOCK_OK {
		err = failure(Status(status), C.GoString(C.dlock_error_message(b.c)))
	}
	boxes.Put(b)
	runtime.KeepAlive(owner)
	return err
}
