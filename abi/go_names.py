"""The public Go functions that make one call of dlock.h or set one option: their names and their doc comments.

Every kind of lock and every submitted call of a client or a lock is listed. Where the list of methods is empty, they are written
by hand in bindings/go.
"""
from __future__ import annotations

# DLOCK_KIND_*: the methods of a Client, their result types and their doc comments.
KINDS: dict[str, list[tuple[str, str, str]]] = {
    "MUTEX": [("Mutex", "Lock", """
returns the mutex called name: one holder has it at a time. Nothing is sent to the server, here and in the other methods that
return locks.

ErrInvalidName, ErrUnknownOption, ErrInvalidOption, ErrClosed.""")],
    "FAIR": [("FairMutex", "Lock", "is Mutex, but the lock is granted strictly in the order of the requests.")],
    "READ": [("ReadLock", "Lock", "returns the read side of a read-write lock: many holders may have it together.")],
    "WRITE": [("WriteLock", "Lock", "returns the write side of a read-write lock: one holder has it alone.")],
    "SEMAPHORE": [("Semaphore", "Semaphore", """
returns the semaphore called name. Its permits stay taken until they are unlocked, or reclaimed after their holder has died.""")],
    "PERMIT_SEMAPHORE": [("PermitSemaphore", "Semaphore", """
returns the semaphore called name whose permits are leases: they have ids, are renewed, and come back when nobody renews them.""")],
    "LATCH": [("Latch", "Latch", "returns the count-down latch called name.")],
    "MULTI": [],
}  # fmt: skip

# Options: the functions that make them, the parameters and their types, the doc comments. Set makes all other options.
OPTIONS: dict[str, tuple[str, str, str, str]] = {
    "lease_ms": ("Lease", "d", "time.Duration", """
is how long the server keeps a lock without renewal; 30 seconds unless set. When the holder's process dies, others wait that long."""),
    "max_hold_ms": ("MaxHold", "d", "time.Duration", """
is the longest time that a lock is renewed; after it the lock is lost. No limit unless set."""),
    "renew": ("Renew", "on", "bool", """
says whether a held lock is renewed until it is unlocked; true unless set."""),
    "permits": ("Permits", "n", "int", "is how many permits of a semaphore one acquisition takes; 1 unless set."),
}  # fmt: skip

# dlock_*: the types, their methods and the doc comments.
VERBS: dict[str, list[tuple[str, str, str]]] = {
    "client_submit_close": [],
    "client_submit_check": [],
    "client_submit_list": [],
    "client_submit_ping": [("Client", "Ping", """
checks that the server answers. ErrUnreachable, ErrDenied and the ErrServer statuses.""")],
    "client_submit_provision": [("Client", "Provision", """
tells the server that it remembers every lock, which ends a quarantine. ErrUnsupported without quarantine_ms.""")],
    "lock_submit_acquire": [
        ("Lock", "Lock", """
waits until the lock is granted, and returns the grant. Unlock the grant later. ctx limits the wait, and is the parent of
Grant.Context; LockWithin limits only the wait.

When ctx ends first, the error is ErrCancelled or ErrTimedOut, and it unwraps to the error of ctx. Other errors: ErrClosed,
ErrGateClosed, ErrUnreachable, ErrDenied, ErrWrongKind, ErrQuarantined, ErrNotReplicated, the ErrServer statuses, and ErrLost
when the lock was lost before the call returned. After any error nothing is held: a grant that still arrives is released."""),
        ("Lock", "LockWithin", """
is Lock with a limit of wait, after which it returns ErrTimedOut. A wait of 0 is TryLock."""),
        ("Lock", "TryLock", "is Lock without waiting for other holders: ErrBusy when somebody else has the lock."),
        ("Semaphore", "Acquire", "is Lock.Lock for permits."),
        ("Semaphore", "AcquireWithin", "is Lock.LockWithin for permits."),
        ("Semaphore", "TryAcquire", "is Lock.TryLock for permits."),
        ("Latch", "Wait", "waits until the count is zero. Its errors are those of Lock.Lock."),
        ("Latch", "WaitWithin", "is Wait with a limit of wait, after which it returns ErrTimedOut; ErrBusy when wait is 0."),
    ],
    "lock_submit_release": [],
    "lock_submit_extend": [("Grant", "Extend", """
sets the lease: the server keeps the lock for lease from now and from each later renewal. ErrNotHeld, ErrLost.""")],
    "lock_submit_inspect": [],
    "lock_submit_export_grant": [],
    "lock_submit_adopt_grant": [],
    "lock_submit_force_release": [("Lock", "ForceUnlock", """
takes the lock from its holder, in any process. Others may acquire it at once; the old holder learns of the loss at its next
renewal, up to a third of its lease later. ErrNotHeld when the lock was free.""")],
    "lock_submit_close_gate": [
        ("Lock", "CloseGate", """
ends all waits for the lock, in all processes, with ErrGateClosed, and refuses new ones until OpenGate or until ttl is over.
The current holder keeps the lock."""),
        ("Semaphore", "CloseGate", "is Lock.CloseGate."),
        ("Latch", "CloseGate", "is Lock.CloseGate."),
    ],
    "lock_submit_open_gate": [
        ("Lock", "OpenGate", "opens the gate that CloseGate closed. ErrUnchanged when it was open."),
        ("Semaphore", "OpenGate", "is Lock.OpenGate."),
        ("Latch", "OpenGate", "is Lock.OpenGate."),
    ],
    "semaphore_submit_set": [("Semaphore", "SetPermits", """
creates the semaphore with n permits. ErrUnchanged when it exists already.""")],
    "semaphore_submit_add": [("Semaphore", "AddPermits", """
adds n permits, or removes them for good when n is negative. It returns how many are free; that number may be negative.""")],
    "semaphore_submit_drain": [("Semaphore", "DrainPermits", """
removes all free permits for good, and returns how many. ErrUnsupported for a PermitSemaphore.""")],
    "semaphore_submit_reclaim": [("Semaphore", "ReclaimPermits", """
frees the permits of holders that have not renewed for their lease and silent on top of it, and returns how many. A holder that
is still alive learns of the loss at its next renewal. ErrUnsupported for a PermitSemaphore.""")],
    "semaphore_submit_available": [("Semaphore", "AvailablePermits", "returns how many permits are free.")],
    "latch_submit_set": [("Latch", "SetCount", "sets the count of a latch that is open. ErrUnchanged when it has a count.")],
    "latch_submit_count_down": [("Latch", "CountDown", "counts down by n, but not below zero, and returns the new count.")],
    "latch_submit_count": [("Latch", "Count", "returns the count. Zero means that the latch is open.")],
}  # fmt: skip
