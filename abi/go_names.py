"""The public functions in Go that do no more than one call of dlock.h, or set one option: what they are called there, and what is
said of them.

Every kind of lock and every submitted call of a client or a lock stands here; one without methods has them in bindings/go, by hand.
"""
from __future__ import annotations

# DLOCK_KIND_*: the methods of a Client, and their types.
KINDS: dict[str, list[tuple[str, str, str]]] = {
    "MUTEX": [("Mutex", "Lock", """
returns the lock called name that one holder has at a time. Nothing is sent, here and in the other methods that return locks.

ErrInvalidName, ErrUnknownOption, ErrInvalidOption, ErrClosed.""")],
    "FAIR": [("FairMutex", "Lock", "is a Mutex that everybody has in the order in which they asked for it.")],
    "READ": [("ReadLock", "Lock", "returns the side of a read-write lock that many may have together.")],
    "WRITE": [("WriteLock", "Lock", "returns the side of a read-write lock that one has alone.")],
    "SEMAPHORE": [("Semaphore", "Semaphore", """
returns the semaphore called name, whose permits stay taken until they are unlocked, or reclaimed after their holder died.""")],
    "PERMIT_SEMAPHORE": [("PermitSemaphore", "Semaphore", """
returns the semaphore called name whose permits are leases: they are renewed, have ids, and come back when nobody renews them.""")],
    "LATCH": [("Latch", "Latch", "returns the count-down latch called name.")],
    "MULTI": [],
}  # fmt: skip

# Options: the functions that make them, their parameters and those's types. Set makes the others.
OPTIONS: dict[str, tuple[str, str, str, str]] = {
    "lease_ms": ("Lease", "d", "time.Duration", """
is how long the server keeps a lock without renewal, 30 seconds unless set: so long others wait when the holder's process dies."""),
    "max_hold_ms": ("MaxHold", "d", "time.Duration", """
is the longest time a lock is renewed before it counts as lost. There is no limit unless set."""),
    "renew": ("Renew", "on", "bool", """
says whether a held lock is renewed until it is unlocked, which is so unless set to false."""),
    "permits": ("Permits", "n", "int", "is how many permits of a semaphore one acquisition takes, 1 unless set."),
}  # fmt: skip

# dlock_*: the types and their methods.
VERBS: dict[str, list[tuple[str, str, str]]] = {
    "client_submit_close": [],
    "client_submit_check": [],
    "client_submit_ping": [("Client", "Ping", """
asks the server for a sign of life. ErrUnreachable, ErrDenied and the ErrServer statuses.""")],
    "client_submit_provision": [("Client", "Provision", """
says to the server that it remembers every lock: a quarantine ends. ErrUnsupported without quarantine_ms.""")],
    "lock_submit_acquire": [
        ("Lock", "Lock", """
waits until it has the lock, and returns the grant to unlock. The context ends the wait, and is the parent of Grant.Context;
LockWithin limits the wait alone.

When ctx ends first, the error is ErrCancelled or ErrTimedOut, and also that of the context. ErrClosed, ErrGateClosed,
ErrUnreachable, ErrDenied, ErrWrongKind, ErrQuarantined, ErrNotReplicated, the ErrServer statuses; ErrLost when it was lost
again before the call returned. After any error nothing is held: a grant that was on its way is given back."""),
        ("Lock", "LockWithin", """
is Lock with a limit to the wait, after which it returns ErrTimedOut. Without any wait, 0, it is TryLock."""),
        ("Lock", "TryLock", "is Lock without waiting for others: ErrBusy when somebody else has the lock."),
        ("Semaphore", "Acquire", "is Lock.Lock for permits."),
        ("Semaphore", "AcquireWithin", "is Lock.LockWithin for permits."),
        ("Semaphore", "TryAcquire", "is Lock.TryLock for permits."),
        ("Latch", "Wait", "waits until the count is zero. Its errors are those of Lock.Lock."),
        ("Latch", "WaitWithin", "is Wait with a limit, after which it returns ErrTimedOut; ErrBusy when that is 0."),
    ],
    "lock_submit_release": [],
    "lock_submit_extend": [("Grant", "Extend", """
makes the server keep the lock for lease from now on and from each renewal. ErrNotHeld, ErrLost.""")],
    "lock_submit_inspect": [],
    "lock_submit_adopt_grant": [],
    "lock_submit_force_release": [("Lock", "ForceUnlock", """
takes the lock from whoever has it, anywhere. Others may have it at once; its holder learns of that at its next renewal, up to a
third of its lease later. ErrNotHeld when it was free.""")],
    "lock_submit_close_gate": [
        ("Lock", "CloseGate", """
ends all waits for the lock, in all processes, with ErrGateClosed, and refuses new ones until the gate is opened or ttl is over.
Who has the lock keeps it."""),
        ("Semaphore", "CloseGate", "is Lock.CloseGate."),
        ("Latch", "CloseGate", "is Lock.CloseGate."),
    ],
    "lock_submit_open_gate": [
        ("Lock", "OpenGate", "lets everybody in again. ErrUnchanged when the gate was open."),
        ("Semaphore", "OpenGate", "is Lock.OpenGate."),
        ("Latch", "OpenGate", "is Lock.OpenGate."),
    ],
    "semaphore_submit_set": [("Semaphore", "SetPermits", """
gives a semaphore that does not exist yet its permits. ErrUnchanged when it does.""")],
    "semaphore_submit_add": [("Semaphore", "AddPermits", """
adds permits, or takes them away for good when n is negative, and returns how many are free, which may be less than none.""")],
    "semaphore_submit_drain": [("Semaphore", "DrainPermits", """
takes all permits that are free for good, and returns how many. ErrUnsupported for a PermitSemaphore.""")],
    "semaphore_submit_reclaim": [("Semaphore", "ReclaimPermits", """
gives back the permits of holders that have been silent for their LeaseMS and silent more, and returns how many. A holder that lives
after all learns of it at its next renewal. ErrUnsupported for a PermitSemaphore.""")],
    "semaphore_submit_available": [("Semaphore", "AvailablePermits", "returns how many permits are free.")],
    "latch_submit_set": [("Latch", "SetCount", "gives a latch that is open its count. ErrUnchanged when it has one.")],
    "latch_submit_count_down": [("Latch", "CountDown", "counts down by n, not below zero, and returns what is left.")],
    "latch_submit_count": [("Latch", "Count", "returns the count. Zero: the latch is open.")],
}  # fmt: skip
