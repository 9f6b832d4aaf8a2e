"""The Python methods that make locks and that ask the server about them: names and docstrings. Parameters and results
come from dlock.h.

Every kind of lock and every submitted call on a lock is listed. Where the name is empty, the method is written by hand in
bindings/python/dlock.
"""
from __future__ import annotations

# DLOCK_KIND_*: the method of a client, its index in Client._kinds with the type variable, and the docstring.
KINDS: dict[str, tuple[str, tuple[int, str], str]] = {
    "MUTEX": ("", (0, "L"), ""),
    "FAIR": ("fair_lock", (0, "L"), "A mutex that is granted strictly in the order of the requests."),
    "READ": ("read_lock", (0, "L"), "The read side of a read-write lock: many owners may hold it together."),
    "WRITE": ("write_lock", (0, "L"), """
The write side of a read-write lock, held alone. A writer may also read; a reader may not also write."""),
    "SEMAPHORE": ("semaphore", (1, "S"), "A semaphore whose permits stay taken until they are released, see Semaphore."),
    "PERMIT_SEMAPHORE": ("permit_semaphore", (1, "S"), "A semaphore whose permits are leases, see Semaphore."),
    "LATCH": ("latch", (2, "C"), "A count-down latch, see Latch."),
    "MULTI": ("", (3, "M"), ""),
}  # fmt: skip

# The prefix of calls on a lock in dlock.h: the class of the methods, and its docstring.
CLASSES = {
    "lock": ("Operations", "Methods of all kinds of locks."),
    "semaphore": ("Permits", "Methods of semaphores."),
    "latch": ("Counts", "Methods of latches."),
}

# dlock_*: the method, the status that it returns as False, and the docstring.
VERBS: dict[str, tuple[str, str, str]] = {
    "lock_acquire": ("", "", ""),
    "lock_release": ("", "", ""),
    "lock_extend": ("extend", "", """
Set the lease: the server keeps the lock for so long from now and from each renewal. NotHeld, Lost."""),
    "lock_force_release": ("force_release", "NOT_HELD", """
Take the lock from its holder, in any process. False when it was free."""),
    "lock_close_gate": ("close_gate", "", """
End all waits for the lock, in all processes, with GateClosed, and refuse new ones for ttl seconds."""),
    "lock_open_gate": ("open_gate", "UNCHANGED", "Open the gate that close_gate closed. False when it was open."),
    "lock_inspect": ("inspect", "", "Ask the server who holds the lock."),
    "lock_export_grant": ("", "", ""),
    "lock_adopt_grant": ("adopt_grant", "", """
Take over an exported grant of this lock. Returns its token. InvalidGrant, Busy; Lost: too late."""),
    "semaphore_set": ("set_permits", "UNCHANGED", """
Create the semaphore with so many permits. False, and nothing changes, when it exists."""),
    "semaphore_add": ("add_permits", "", """
Add permits, or remove them when negative. Returns how many are free now."""),
    "semaphore_drain": ("drain_permits", "", """
Remove all free permits for good. Returns how many. Unsupported for a permit semaphore."""),
    "semaphore_reclaim": ("reclaim_permits", "", """
Free permits whose holder has not renewed for its lease_ms and silent seconds more. Returns how many."""),
    "semaphore_available": ("available_permits", "", "How many permits are free."),
    "latch_set": ("set_count", "UNCHANGED", """
Set the count of an open latch. False, and nothing changes, when it has a count."""),
    "latch_count_down": ("count_down", "", "Count down, but not below zero. Returns the new count."),
    "latch_count": ("count", "", "The count; 0 means that the latch is open."),
}  # fmt: skip

PROPERTIES = ("available_permits", "count")
DEFAULTS = {("count_down", "count"): 1}
