package dlock

import (
	"context"
	"fmt"
	"unsafe"
)

// A Status says how a call ended. Statuses are errors to compare with: errors.Is(err, dlock.ErrBusy). Expect ones that
// have no constant here, from a newer library.
type Status int32

// Error returns one sentence that says what the status means.
func (s Status) Error() string { return "dlock: " + statusText(s) }

// Name returns the name of the status, for example "TIMED_OUT"; "UNKNOWN" when the library does not have it.
func (s Status) Name() string { return statusName(s) }

// Retryable reports whether a call that ended so may succeed later without a change by the caller.
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

// failure is an error that names the lock, if it has a name.
func (l *Lock) failure(status Status) *Error {
	message := statusText(status)
	if l.name != "" {
		message = fmt.Sprintf("lock %q: %s", l.name, message)
	}
	return &Error{Status: status, Message: message}
}

// outcome is what comes of a request whose context ends before the answer.
type outcome bool

const undone, unknown outcome = false, true

// ended is what a context that is over means for a request. nil while it is not over.
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

// boxes are error boxes of the library, one for each call that is under way.
type boxes chan *cError

// quick is for calls that never block. Such a call may lose its processor all the same; as there are only so few boxes, it is
// not a new thread for every goroutine that wants to make a call meanwhile. Other calls get a new box when there is none.
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
		return errorNew() // nil, without memory, is a box too
	}
}

// done takes the box back from a call, and is what that call came to.
func (b boxes) done(box *cError, status Status) (err error) {
	if status == ErrWouldBlock || status == ErrNoEvent {
		err = status // often, and seen by nobody
	} else if status != 0 {
		err = &Error{Status: status, Message: box.message()}
	}
	offer(b, box)
	return err
}

// offer sends what there is room for.
func offer[T any](to chan T, one T) {
	select {
	case to <- one:
	default:
	}
}

// copied is a copy of data for one call of the library, ended by a NUL.
func copied[T string | []byte](data T) unsafe.Pointer {
	return unsafe.Pointer(&append(append([]byte{}, data...), 0)[0])
}

// first is where the library puts what it writes to a slice.
func first[T any](slice []T) unsafe.Pointer {
	if len(slice) == 0 {
		return nil
	}
	return unsafe.Pointer(&slice[0])
}
