"""The ABI for ctypes, from abi/dlock.h. Written by abi/gen.py: do not edit.

PROTOTYPES maps each function to its result type and the list of its argument types. Each opaque type has an empty class
and a pointer type NAME_p. Input bytes are a c_char_p and a length. BLOCKING: the functions that may wait for the
network or for time.
"""
from ctypes import POINTER, Structure, c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint8
import sys
from typing import Any


class Pointer:
    """The only pointer to an object of the library: its last reference frees the object. A place for a handle is made
    before the call that fills it, so that no handle is lost."""

    library: Any = None

    def __del__(self, exiting: Any = sys.is_finalizing) -> None:
        if self and not exiting():  # at exit threads may still be inside
            getattr(self.library, type(self).__name__[:-2] + "_free")(self)


def pointer(kind: Any) -> Any:
    plain: Any = POINTER(kind)
    return type(plain)(kind.__name__ + "_p", (Pointer, plain), {"_type_": kind})


class dlock_options(Structure):
    """Opaque."""


dlock_options_p = pointer(dlock_options)


class dlock_client(Structure):
    """Opaque."""


dlock_client_p = pointer(dlock_client)


class dlock_lock(Structure):
    """Opaque."""


dlock_lock_p = pointer(dlock_lock)


class dlock_event(Structure):
    """Opaque."""


dlock_event_p = pointer(dlock_event)


class dlock_error(Structure):
    """Opaque."""


dlock_error_p = pointer(dlock_error)


class dlock_txn(Structure):
    """Opaque."""


dlock_txn_p = pointer(dlock_txn)

DLOCK_OK = 0
DLOCK_BUSY = 1
DLOCK_TIMED_OUT = 2
DLOCK_CANCELLED = 3
DLOCK_INTERRUPTED = 4
DLOCK_WOULD_BLOCK = 5
DLOCK_NO_EVENT = 6
DLOCK_GATE_CLOSED = 7
DLOCK_CONFLICT = 8
DLOCK_NOT_FOUND = 9
DLOCK_UNCHANGED = 10
DLOCK_INVALID_ARGUMENT = -100
DLOCK_INVALID_NAME = -101
DLOCK_UNKNOWN_OPTION = -102
DLOCK_INVALID_OPTION = -103
DLOCK_INVALID_URL = -104
DLOCK_UNSUPPORTED = -105
DLOCK_OUT_OF_MEMORY = -106
DLOCK_CLOSED = -107
DLOCK_FORKED = -108
DLOCK_BUFFER_TOO_SMALL = -109
DLOCK_SYSTEM_ERROR = -110
DLOCK_DUPLICATE_NAME = -111
DLOCK_INVALID_QUORUM = -112
DLOCK_NOT_HELD = -200
DLOCK_LOST = -201
DLOCK_WRONG_KIND = -202
DLOCK_UNKNOWN_OUTCOME = -203
DLOCK_INVALID_GRANT = -204
DLOCK_UPGRADE_REFUSED = -205
DLOCK_NO_TRANSACTION = -207
DLOCK_UNREACHABLE = -300
DLOCK_DENIED = -301
DLOCK_SERVER_LOADING = -302
DLOCK_SERVER_BUSY = -303
DLOCK_SERVER_OUT_OF_MEMORY = -304
DLOCK_SERVER_READ_ONLY = -305
DLOCK_PROTOCOL_ERROR = -306
DLOCK_SERVER_ERROR = -307
DLOCK_TLS_FAILED = -310
DLOCK_WRONG_SETUP = -311
DLOCK_QUARANTINED = -312
DLOCK_LEASE_REFUSED = -313
DLOCK_NOT_REPLICATED = -314
DLOCK_SERVER_FORGOT = -315
DLOCK_UNFIT = -316
DLOCK_KIND_MUTEX = 1
DLOCK_KIND_FAIR = 2
DLOCK_KIND_READ = 3
DLOCK_KIND_WRITE = 4
DLOCK_KIND_SEMAPHORE = 5
DLOCK_KIND_PERMIT_SEMAPHORE = 6
DLOCK_KIND_LATCH = 7
DLOCK_KIND_MULTI = 8
DLOCK_STATE_NONE = 0
DLOCK_STATE_WAITING = 1
DLOCK_STATE_HELD = 2
DLOCK_STATE_AT_RISK = 3
DLOCK_STATE_LOST = 4
DLOCK_CAUSE_NONE = 0
DLOCK_CAUSE_EXPIRED = 1
DLOCK_CAUSE_TAKEN = 2
DLOCK_CAUSE_MAX_HOLD = 3
DLOCK_CAUSE_CLOSED = 4
DLOCK_EVENT_NONE = 0
DLOCK_EVENT_ACQUIRED = 1
DLOCK_EVENT_ACQUIRE_FAILED = 2
DLOCK_EVENT_RELEASED = 3
DLOCK_EVENT_RELEASE_FAILED = 4
DLOCK_EVENT_AT_RISK = 5
DLOCK_EVENT_LOST = 6
DLOCK_EVENT_LOG = 7
DLOCK_EVENT_INSPECTION = 8
DLOCK_EVENT_DONE = 9
DLOCK_EVENT_FINDING = 10
DLOCK_FINDING_EVICTION = 1
DLOCK_FINDING_PERSISTENCE = 2
DLOCK_FINDING_PERSISTENCE_FAILS = 3
DLOCK_FINDING_VERSION = 4
DLOCK_FINDING_READ_ONLY = 5
DLOCK_FINDING_REPLICAS = 6
DLOCK_FINDING_CLOCK = 7
DLOCK_FINDING_COMMAND_MISSING = 8
DLOCK_FINDING_COMMAND_DENIED = 9
DLOCK_FINDING_WRITE_REFUSED = 10
DLOCK_FINDING_NO_ANSWER = 11
DLOCK_FINDING_NO_LEADER = 12
DLOCK_FINDING_ALARM = 13
DLOCK_FINDING_OPEN = 14
DLOCK_FINDING_FAULTY_VERSION = 15
DLOCK_FINDING_OLD_VERSION = 16
DLOCK_SEVERITY_WARNING = 1
DLOCK_SEVERITY_DANGER = 2
DLOCK_FIELD_TYPE = 0
DLOCK_FIELD_STATUS = 1
DLOCK_FIELD_TAG = 2
DLOCK_FIELD_LOCK_ID = 3
DLOCK_FIELD_OWNER = 4
DLOCK_FIELD_TOKEN = 5
DLOCK_FIELD_REMAINING_MS = 6
DLOCK_FIELD_CAUSE = 7
DLOCK_FIELD_HELD_FOR_MS = 8
DLOCK_FIELD_WAITERS = 9
DLOCK_FIELD_FOREIGN = 10
DLOCK_FIELD_VALUE = 11
DLOCK_FIELD_COUNT = 12
DLOCK_STAT_ACQUIRED = 0
DLOCK_STAT_WIRE_GRANTS = 1
DLOCK_STAT_PUSHED_GRANTS = 2
DLOCK_STAT_HANDOVERS = 3
DLOCK_STAT_RELEASED = 4
DLOCK_STAT_LOST = 5
DLOCK_STAT_RENEWED = 6
DLOCK_STAT_RENEWALS_LATE = 7
DLOCK_STAT_RENEWAL_SCRIPTS = 8
DLOCK_STAT_UNDONE = 9
DLOCK_STAT_COMMANDS = 10
DLOCK_STAT_CONNECTS = 11
DLOCK_STAT_CONNECT_FAILURES = 12
DLOCK_STAT_SCRIPT_RELOADS = 13
DLOCK_STAT_EVENTS_DROPPED = 14
DLOCK_STAT_HELD = 15
DLOCK_STAT_WAITING = 16
DLOCK_STAT_LOCKS = 17
DLOCK_STAT_COUNT = 18

ALSO = {  # what else exceptions are, see gen.py
    "TIMED_OUT": TimeoutError,
    "UNREACHABLE": ConnectionError,
    "DENIED": PermissionError,
    "OUT_OF_MEMORY": MemoryError,
    "NOT_HELD": RuntimeError,
    "UNKNOWN_OPTION": ValueError,
    "DUPLICATE_NAME": ValueError,
}

PROTOTYPES = {
    "dlock_version": (c_uint32, []),
    "dlock_version_string": (c_char_p, []),
    "dlock_supports": (c_int32, [c_char_p]),
    "dlock_status_count": (c_size_t, []),
    "dlock_status_at": (c_int32, [c_size_t]),
    "dlock_status_name": (c_char_p, [c_int32]),
    "dlock_status_text": (c_char_p, [c_int32]),
    "dlock_status_retryable": (c_int32, [c_int32]),
    "dlock_error_new": (dlock_error_p, []),
    "dlock_error_free": (None, [dlock_error_p]),
    "dlock_error_code": (c_int32, [dlock_error_p]),
    "dlock_error_message": (c_char_p, [dlock_error_p]),
    "dlock_error_retryable": (c_int32, [dlock_error_p]),
    "dlock_options_new": (dlock_options_p, []),
    "dlock_options_free": (None, [dlock_options_p]),
    "dlock_options_set": (c_int32, [dlock_options_p, c_char_p, c_char_p, dlock_error_p]),
    "dlock_options_get": (c_int32, [dlock_options_p, c_char_p, POINTER(c_char), c_size_t, POINTER(c_size_t), dlock_error_p]),
    "dlock_option_count": (c_size_t, []),
    "dlock_option_name": (c_char_p, [c_size_t]),
    "dlock_option_type": (c_char_p, [c_size_t]),
    "dlock_option_default": (c_char_p, [c_size_t]),
    "dlock_option_help": (c_char_p, [c_size_t]),
    "dlock_client_open": (c_int32, [c_char_p, dlock_options_p, POINTER(dlock_client_p), dlock_error_p]),
    "dlock_client_close": (c_int32, [dlock_client_p, c_int64, dlock_error_p]),
    "dlock_client_submit_close": (c_int32, [dlock_client_p, c_int64, dlock_error_p]),
    "dlock_client_free": (None, [dlock_client_p]),
    "dlock_client_fd": (c_int32, [dlock_client_p, POINTER(c_int32), dlock_error_p]),
    "dlock_client_next": (c_int32, [dlock_client_p, c_int64, dlock_event_p, dlock_error_p]),
    "dlock_client_wake": (c_int32, [dlock_client_p, dlock_error_p]),
    "dlock_client_stats": (c_int32, [dlock_client_p, POINTER(c_int64), c_size_t, POINTER(c_size_t), dlock_error_p]),
    "dlock_client_metrics": (c_int32, [dlock_client_p, POINTER(c_char), c_size_t, POINTER(c_size_t), dlock_error_p]),
    "dlock_client_ping": (c_int32, [dlock_client_p, c_int64, dlock_error_p]),
    "dlock_client_submit_ping": (c_int32, [dlock_client_p, c_int64, c_int64, dlock_error_p]),
    "dlock_client_provision": (c_int32, [dlock_client_p, c_int64, dlock_error_p]),
    "dlock_client_submit_provision": (c_int32, [dlock_client_p, c_int64, c_int64, dlock_error_p]),
    "dlock_client_list": (c_int32, [dlock_client_p, c_int64, c_int64, POINTER(c_uint8), c_size_t, POINTER(c_size_t), POINTER(c_int64), dlock_error_p]),
    "dlock_client_submit_list": (c_int32, [dlock_client_p, c_int64, c_int64, c_int64, dlock_error_p]),
    "dlock_client_fault": (c_int32, [dlock_client_p, c_char_p, c_char_p, c_size_t, c_int64, dlock_error_p]),
    "dlock_client_check": (c_int32, [dlock_client_p, c_int64, POINTER(c_size_t), dlock_error_p]),
    "dlock_client_submit_check": (c_int32, [dlock_client_p, c_int64, c_int64, dlock_error_p]),
    "dlock_client_finding": (c_int32, [dlock_client_p, c_size_t, dlock_event_p, dlock_error_p]),
    "dlock_finding_name": (c_char_p, [c_int32]),
    "dlock_lock_new": (c_int32, [dlock_client_p, c_int32, c_char_p, c_size_t, dlock_options_p, POINTER(dlock_lock_p), dlock_error_p]),
    "dlock_lock_new_multi": (c_int32, [dlock_client_p, POINTER(dlock_lock_p), c_size_t, POINTER(dlock_lock_p), dlock_error_p]),
    "dlock_lock_free": (None, [dlock_lock_p]),
    "dlock_lock_id": (c_int64, [dlock_lock_p]),
    "dlock_lock_acquire": (c_int32, [dlock_lock_p, c_int64, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_lock_release": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_lock_acquire_local": (c_int32, [dlock_lock_p, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_lock_release_local": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_lock_submit_acquire": (c_int32, [dlock_lock_p, c_int64, c_int64, c_int64, dlock_error_p]),
    "dlock_lock_submit_release": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_lock_begin_acquire": (c_int32, [dlock_lock_p, c_int64, c_int64, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_lock_begin_release": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_lock_cancel": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_lock_extend": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_lock_submit_extend": (c_int32, [dlock_lock_p, c_int64, c_int64, c_int64, dlock_error_p]),
    "dlock_lock_force_release": (c_int32, [dlock_lock_p, dlock_error_p]),
    "dlock_lock_submit_force_release": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_lock_state": (c_int32, [dlock_lock_p, c_int64, POINTER(c_int32), dlock_error_p]),
    "dlock_lock_remaining_ms": (c_int32, [dlock_lock_p, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_lock_token": (c_int32, [dlock_lock_p, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_lock_hold_count": (c_int32, [dlock_lock_p, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_lock_inspect": (c_int32, [dlock_lock_p, dlock_event_p, dlock_error_p]),
    "dlock_lock_submit_inspect": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_lock_export_grant": (c_int32, [dlock_lock_p, c_int64, POINTER(c_uint8), c_size_t, POINTER(c_size_t), dlock_error_p]),
    "dlock_lock_submit_export_grant": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_lock_adopt_grant": (c_int32, [dlock_lock_p, c_int64, c_char_p, c_size_t, POINTER(c_int64), dlock_error_p]),
    "dlock_lock_submit_adopt_grant": (c_int32, [dlock_lock_p, c_int64, c_char_p, c_size_t, c_int64, dlock_error_p]),
    "dlock_lock_close_gate": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_lock_submit_close_gate": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_lock_open_gate": (c_int32, [dlock_lock_p, dlock_error_p]),
    "dlock_lock_submit_open_gate": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_semaphore_set": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_semaphore_submit_set": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_semaphore_add": (c_int32, [dlock_lock_p, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_semaphore_submit_add": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_semaphore_drain": (c_int32, [dlock_lock_p, POINTER(c_int64), dlock_error_p]),
    "dlock_semaphore_submit_drain": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_semaphore_reclaim": (c_int32, [dlock_lock_p, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_semaphore_submit_reclaim": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_semaphore_available": (c_int32, [dlock_lock_p, POINTER(c_int64), dlock_error_p]),
    "dlock_semaphore_submit_available": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_semaphore_permit": (c_int32, [dlock_lock_p, c_int64, c_int64, POINTER(c_char), c_size_t, dlock_error_p]),
    "dlock_latch_set": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_latch_submit_set": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_latch_count_down": (c_int32, [dlock_lock_p, c_int64, POINTER(c_int64), dlock_error_p]),
    "dlock_latch_submit_count_down": (c_int32, [dlock_lock_p, c_int64, c_int64, dlock_error_p]),
    "dlock_latch_count": (c_int32, [dlock_lock_p, POINTER(c_int64), dlock_error_p]),
    "dlock_latch_submit_count": (c_int32, [dlock_lock_p, c_int64, dlock_error_p]),
    "dlock_event_new": (dlock_event_p, []),
    "dlock_event_free": (None, [dlock_event_p]),
    "dlock_event_type": (c_int32, [dlock_event_p]),
    "dlock_event_unpack": (c_int32, [dlock_event_p, POINTER(c_int64), c_size_t, POINTER(c_size_t), dlock_error_p]),
    "dlock_event_text": (c_char_p, [dlock_event_p]),
    "dlock_event_data": (c_int32, [dlock_event_p, POINTER(c_uint8), c_size_t, POINTER(c_size_t), dlock_error_p]),
    "dlock_txn_new": (c_int32, [dlock_client_p, POINTER(dlock_txn_p), dlock_error_p]),
    "dlock_txn_free": (None, [dlock_txn_p]),
    "dlock_txn_watch": (c_int32, [dlock_txn_p, c_char_p, c_size_t, dlock_error_p]),
    "dlock_txn_submit_watch": (c_int32, [dlock_txn_p, c_char_p, c_size_t, c_int64, dlock_error_p]),
    "dlock_txn_get": (c_int32, [dlock_txn_p, c_char_p, c_size_t, POINTER(c_uint8), c_size_t, POINTER(c_size_t), dlock_error_p]),
    "dlock_txn_submit_get": (c_int32, [dlock_txn_p, c_char_p, c_size_t, c_int64, dlock_error_p]),
    "dlock_txn_set": (c_int32, [dlock_txn_p, c_char_p, c_size_t, c_char_p, c_size_t, c_int64, dlock_error_p]),
    "dlock_txn_incr": (c_int32, [dlock_txn_p, c_char_p, c_size_t, c_int64, dlock_error_p]),
    "dlock_txn_delete": (c_int32, [dlock_txn_p, c_char_p, c_size_t, dlock_error_p]),
    "dlock_txn_commit": (c_int32, [dlock_txn_p, dlock_error_p]),
    "dlock_txn_submit_commit": (c_int32, [dlock_txn_p, c_int64, dlock_error_p]),
    "dlock_txn_rollback": (c_int32, [dlock_txn_p, dlock_error_p]),
    "dlock_txn_submit_rollback": (c_int32, [dlock_txn_p, c_int64, dlock_error_p]),
    "dlock_txn_pause_ms": (c_int64, [c_int32]),
}

BLOCKING = {
    "dlock_client_open",
    "dlock_client_close",
    "dlock_client_next",
    "dlock_client_ping",
    "dlock_client_provision",
    "dlock_client_list",
    "dlock_client_check",
    "dlock_lock_acquire",
    "dlock_lock_release",
    "dlock_lock_extend",
    "dlock_lock_force_release",
    "dlock_lock_inspect",
    "dlock_lock_export_grant",
    "dlock_lock_adopt_grant",
    "dlock_lock_close_gate",
    "dlock_lock_open_gate",
    "dlock_semaphore_set",
    "dlock_semaphore_add",
    "dlock_semaphore_drain",
    "dlock_semaphore_reclaim",
    "dlock_semaphore_available",
    "dlock_latch_set",
    "dlock_latch_count_down",
    "dlock_latch_count",
    "dlock_txn_watch",
    "dlock_txn_get",
    "dlock_txn_commit",
    "dlock_txn_rollback",
}
