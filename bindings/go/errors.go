//go:build cgo

package dlock

import (
	"context"
	"fmt"
	"unsafe"
)

// A Status says how a call ended. Compare errors with it: errors.Is(err, dlock.ErrBusy). A newer library may return
// statuses that have no constant here.
type Status int32

// Error returns a sentence that explains the status.
func (s Status) Error() string { return "dlock: " + statusText(s) }

// Name returns the name of the status, for example "TIMED_OUT"; "UNKNOWN" for one that the library does not have.
func (s Status) Name() string { return statusName(s) }

// Retryable reports whether the same call may succeed later without a change by the caller.
func (s Status) Retryable() bool { return statusRetryable(s) == 1 }

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

// failure makes an error that names the lock, if it has a name.
func (l *Lock) failure(status Status) *Error {
	message := statusText(status)
	if l.name != "" {
		message = fmt.Sprintf("lock %q: %s", l.name, message)
	}
	return &Error{Status: status, Message: message}
}

// outcome is the effect of a request whose context ends before the answer.
type outcome bool

const undone, unknown outcome = false, true

// ended returns the error of a request whose context has ended; nil while it has not.
func (l *Lock) ended(ctx context.Context, late outcome) error {
	if ctx == nil {
		return invalid("no context was given")
	}
	cause := ctx.Err()
	if cause == nil {
		return nil
	}
	status := ErrCancelled
	if late == unknown {
		status = ErrUnknownOutcome
	} else if cause == context.DeadlineExceeded {
		status = ErrTimedOut
	}
	e := l.failure(status)
	e.cause = cause
	return e
}

// ---- for abi.go

// boxes is a pool of error boxes of the library. Each call under way has one.
type boxes chan *cError

// quick is for calls that never block. Go's scheduler may still take the processor from such a call. As there are only four
// boxes, other goroutines then wait for a box instead of starting a thread each. For blocking calls an empty pool makes a new
// box.
var quick, blocking = make(boxes, 4), make(boxes, 16)

func init() {
	for len(quick) < cap(quick) {
		quick <- errorNew()
	}
}

func (b boxes) take() *cError {
	if b == quick {
		return <-b
	}
	select {
	case box := <-b:
		return box
	default:
		return errorNew() // nil without memory: the library accepts that
	}
}

// done puts the box back after a call, and returns the error of the call.
func (b boxes) done(box *cError, status Status) (err error) {
	if status == ErrWouldBlock || status == ErrNoEvent {
		err = status // frequent, and never shown to the user
	} else if status != 0 {
		err = &Error{Status: status, Message: box.message()}
	}
	offer(b, box)
	return err
}

// offer sends one without blocking: it is dropped when the channel is full.
func offer[T any](to chan T, one T) {
	select {
	case to <- one:
	default:
	}
}

// copied copies data, with a NUL at the end, for one call of the library.
func copied[T string | []byte](data T) unsafe.Pointer {
	return unsafe.Pointer(&append(append([]byte{}, data...), 0)[0])
}

// first returns the address where the library writes to a slice.
func first[T any](slice []T) unsafe.Pointer {
	if len(slice) == 0 {
		return nil
	}
	return unsafe.Pointer(&slice[0])
}
