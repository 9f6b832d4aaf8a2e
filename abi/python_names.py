"""What locks are made by and what is asked of the server about them, as it is called in Python; what a call takes and
answers stands in dlock.h.

Every kind of lock and every submitted call on a lock stands here; one without a method has it in bindings/python/dlock, by
hand.
"""
from __future__ import annotations

# DLOCK_KIND_*: the method of a client, its place in Client._kinds with the name of the type there, and what is said of it.
KINDS: dict[str, tuple[str, tuple[int, str], str]] = {
    "MUTEX": ("", (0, "L"), ""),
    "FAIR": ("fair_lock", (0, "L"), "A mutex that is granted strictly in the order in which owners asked for it."),
    "READ": ("read_lock", (0, "L"), "The side of a read-write lock that many may hold together."),
    "WRITE": ("write_lock", (0, "L"), """
The side of a read-write lock that one holds alone. An owner that writes may also read, not the reverse."""),
    "SEMAPHORE": ("semaphore", (1, "S"), "A semaphore whose permits last until they are released, see Semaphore."),
    "PERMIT_SEMAPHORE": ("permit_semaphore", (1, "S"), "A semaphore whose permits are leases, see Semaphore."),
    "LATCH": ("latch", (2, "C"), "A count-down latch, see Latch."),
    "MULTI": ("", (3, "M"), ""),
}  # fmt: skip

# What two calls on a lock in dlock.h begin with: the class of the methods, and what is said of it.
CLASSES = {
    "lock": ("Orders", "What all kinds are asked."),
    "semaphore": ("Permits", "What semaphores are asked."),
    "latch": ("Counts", "What latches are asked."),
}

# dlock_*: the method, the status that is False, and what is said of it.
VERBS: dict[str, tuple[str, str, str]] = {
    "lock_acquire": ("", "", ""),
    "lock_release": ("", "", ""),
    "lock_extend": ("extend", "", """
Make the server keep the lock for so many seconds from now and from each renewal. NotHeld, Lost."""),
    "lock_force_release": ("force_release", "NOT_HELD", """
Take the lock from whoever holds it, anywhere. False when it was free."""),
    "lock_close_gate": ("close_gate", "", """
End every wait for the lock, in all processes, with GateClosed, and refuse new ones for ttl seconds."""),
    "lock_open_gate": ("open_gate", "UNCHANGED", "Let everybody in again. False when the gate was open."),
    "lock_inspect": ("inspect", "", "Ask the server who holds the lock."),
    "lock_adopt_grant": ("adopt_grant", "", """
Take over an exported grant of this name, as the first, in time; its token. InvalidGrant, Lost, Busy."""),
    "semaphore_set": ("set_permits", "UNCHANGED", """
Give the semaphore its permits; False when it has some already: nothing changes then."""),
    "semaphore_add": ("add_permits", "", """
Add permits, or take them away when negative; how many are free now."""),
    "semaphore_drain": ("drain_permits", "", """
Take all permits that are free for good; how many that were. Unsupported for a permit semaphore."""),
    "semaphore_reclaim": ("reclaim_permits", "", """
Give back what holders had that have been silent for their lease_ms and so many seconds more; how many permits came back."""),
    "semaphore_available": ("available_permits", "", "How many permits are free."),
    "latch_set": ("set_count", "UNCHANGED", """
Give an open latch its count; False when it has one: nothing changes then."""),
    "latch_count_down": ("count_down", "", "Count down, not below zero; what is left."),
    "latch_count": ("count", "", "The count; 0: open."),
}  # fmt: skip

PROPERTIES = ("available_permits", "count")
DEFAULTS = {("count_down", "count"): 1}
