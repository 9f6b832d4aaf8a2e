"""The public methods in Go that do no more than one call of dlock.h: what they are called there, and what is said of them.

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
returns the semaphore called name, whose permits stay taken until they are unlocked, also when their holder's process dies.""")],
    "PERMIT_SEMAPHORE": [("PermitSemaphore", "Semaphore", """
returns the semaphore called name whose permits are leases: they are renewed, have ids, and come back when nobody renews them.""")],
    "LATCH": [("Latch", "Latch", "returns the count-down latch called name.")],
    "MULTI": [],
}  # fmt: skip

# dlock_*: the types and their methods.
VERBS: dict[str, list[tuple[str, str, str]]] = {
    "client_submit_close": [],
    "client_submit_check": [],
    "client_submit_ping": [("Client", "Ping", """
asks the server for a sign of life. ErrUnreachable, ErrDenied and the ErrServer statuses.""")],
    "client_submit_provision": [("Client", "Provision", """
says to the server that it remembers every lock: a quarantine ends. ErrUnsupported without quarantine_ms.""")],
    "lock_submit_acquire": [],
    "lock_submit_release": [],
    "lock_submit_extend": [],
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
    "semaphore_submit_available": [("Semaphore", "AvailablePermits", "returns how many permits are free.")],
    "latch_submit_set": [("Latch", "SetCount", "gives a latch that is open its count. ErrUnchanged when it has one.")],
    "latch_submit_count_down": [("Latch", "CountDown", "counts down by n, not below zero, and returns what is left.")],
    "latch_submit_count": [("Latch", "Count", "returns the count. Zero: the latch is open.")],
}  # fmt: skip
