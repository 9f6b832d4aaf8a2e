package dlock

// #include <dlock.h>
import "C"

import (
	"context"
	"runtime"
	"sync"
)

// A Status says how a call ended, as a number that never changes its meaning. The Err constants are the ones this
// binding knows; all are errors to compare with:
//
//	if errors.Is(err, dlock.ErrBusy) { ... }
type Status int32

// Expected outcomes.
const (
	ErrBusy        Status = C.DLOCK_BUSY        // TryLock: somebody else holds the lock
	ErrTimedOut    Status = C.DLOCK_TIMED_OUT   // the time to wait is over
	ErrCancelled   Status = C.DLOCK_CANCELLED   // the context ended the wait
	ErrInterrupted Status = C.DLOCK_INTERRUPTED // not seen in Go
	ErrWouldBlock  Status = C.DLOCK_WOULD_BLOCK // not seen in Go
	ErrNoEvent     Status = C.DLOCK_NO_EVENT    // not seen in Go
)

// Wrong use, and trouble in this process.
const (
	ErrInvalidArgument Status = C.DLOCK_INVALID_ARGUMENT
	ErrInvalidName     Status = C.DLOCK_INVALID_NAME
	ErrUnknownOption   Status = C.DLOCK_UNKNOWN_OPTION
	ErrInvalidOption   Status = C.DLOCK_INVALID_OPTION
	ErrInvalidURL      Status = C.DLOCK_INVALID_URL
	ErrUnsupported     Status = C.DLOCK_UNSUPPORTED // not in the libdlock that is installed
	ErrOutOfMemory     Status = C.DLOCK_OUT_OF_MEMORY
	ErrClosed          Status = C.DLOCK_CLOSED // the client was closed
	ErrForked          Status = C.DLOCK_FORKED
	ErrBufferTooSmall  Status = C.DLOCK_BUFFER_TOO_SMALL
	ErrSystemError     Status = C.DLOCK_SYSTEM_ERROR
)

// What became of a lock.
const (
	ErrNotHeld        Status = C.DLOCK_NOT_HELD        // unlocked already
	ErrLost           Status = C.DLOCK_LOST            // held, and lost before the call
	ErrWrongKind      Status = C.DLOCK_WRONG_KIND      // the name is in use for something else
	ErrUnknownOutcome Status = C.DLOCK_UNKNOWN_OUTCOME // no answer in time; it goes on in the background
	ErrInvalidGrant   Status = C.DLOCK_INVALID_GRANT   // Adopt: these bytes are no grant of this lock
)

// Trouble with the server.
const (
	ErrUnreachable       Status = C.DLOCK_UNREACHABLE
	ErrDenied            Status = C.DLOCK_DENIED
	ErrServerLoading     Status = C.DLOCK_SERVER_LOADING
	ErrServerBusy        Status = C.DLOCK_SERVER_BUSY
	ErrServerOutOfMemory Status = C.DLOCK_SERVER_OUT_OF_MEMORY
	ErrServerReadOnly    Status = C.DLOCK_SERVER_READ_ONLY
	ErrProtocolError     Status = C.DLOCK_PROTOCOL_ERROR
	ErrServerError       Status = C.DLOCK_SERVER_ERROR
)

// Error returns one sentence that says what the status means.
func (s Status) Error() string { return "dlock: " + C.GoString(C.dlock_status_text(C.dlock_status(s))) }

// Name returns the name of the status in the library, for example "TIMED_OUT"; "UNKNOWN" for a number it does not have.
func (s Status) Name() string { return C.GoString(C.dlock_status_name(C.dlock_status(s))) }

// Error is the type of all errors of this package. errors.Is compares it with the Err constants, and with
// context.Canceled and context.DeadlineExceeded when a context ended the call.
type Error struct {
	Status  Status
	Message string // one sentence that names the lock and the server, without credentials
	cause   error
}

// Error returns the message.
func (e *Error) Error() string {
	if e.cause != nil {
		return "dlock: " + e.Message + ": " + e.cause.Error()
	}
	return "dlock: " + e.Message
}

// Is reports whether target is the status of e.
func (e *Error) Is(target error) bool { return target == error(e.Status) }

// Unwrap returns the error of the context that ended the call, or nil.
func (e *Error) Unwrap() error { return e.cause }

// failure makes an error, with the library's sentence when there is no better one.
func failure(status Status, message string) *Error {
	if message == "" {
		message = C.GoString(C.dlock_status_text(C.dlock_status(status)))
	}
	return &Error{Status: status, Message: message}
}

func invalid(message string) error { return failure(ErrInvalidArgument, message) }

// ended is the error of a context that is over, with what it means for the caller; nil while it is not.
func ended(ctx context.Context, canceled, late Status) error {
	if ctx == nil {
		return invalid("no context was given")
	}
	cause := ctx.Err()
	if cause == nil {
		return nil
	}
	status := canceled
	if cause == context.DeadlineExceeded {
		status = late
	}
	e := failure(status, "")
	e.cause = cause
	return e
}

// box is an error box of the library. Boxes are used again; one that the pool drops is freed.
type box struct{ c *C.dlock_error }

var boxes = sync.Pool{New: func() any {
	b := &box{C.dlock_error_new()} // NULL without memory is a box to the library
	runtime.SetFinalizer(b, func(b *box) { C.dlock_error_free(b.c) })
	return b
}}

// call makes a call of the library with an error box and returns what it came to.
func call(f func(box *C.dlock_error) C.dlock_status) error {
	b := boxes.Get().(*box)
	defer boxes.Put(b)
	if status := f(b.c); status != C.DLOCK_OK {
		return failure(Status(status), C.GoString(C.dlock_error_message(b.c)))
	}
	return nil
}

// statusOf returns the status of an error of this package, 0 for nil.
func statusOf(err error) Status {
	if e, ok := err.(*Error); ok {
		return e.Status
	}
	return C.DLOCK_OK
}
