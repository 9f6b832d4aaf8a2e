-- The ABI for LuaJIT's FFI, from abi/dlock.h. Written by abi/gen.py: do not edit.
return {
cdef = [[
typedef int32_t dlock_status;
typedef struct dlock_options dlock_options;
typedef struct dlock_client dlock_client;
typedef struct dlock_lock dlock_lock;
typedef struct dlock_event dlock_event;
typedef struct dlock_error dlock_error;
typedef struct dlock_txn dlock_txn;
uint32_t dlock_version(void);
const char *dlock_version_string(void);
int32_t dlock_supports(const char *feature);
size_t dlock_status_count(void);
dlock_status dlock_status_at(size_t index);
const char *dlock_status_name(dlock_status status);
const char *dlock_status_text(dlock_status status);
int32_t dlock_status_retryable(dlock_status status);
dlock_error *dlock_error_new(void);
void dlock_error_free(dlock_error *error);
dlock_status dlock_error_code(const dlock_error *error);
const char *dlock_error_message(const dlock_error *error);
int32_t dlock_error_retryable(const dlock_error *error);
dlock_options *dlock_options_new(void);
void dlock_options_free(dlock_options *options);
dlock_status dlock_options_set(dlock_options *options, const char *name, const char *value, dlock_error *reterr);
dlock_status dlock_options_get(const dlock_options *options, const char *name, char *buffer, size_t size, size_t *ret_size, dlock_error *reterr);
size_t dlock_option_count(void);
const char *dlock_option_name(size_t index);
const char *dlock_option_type(size_t index);
const char *dlock_option_default(size_t index);
const char *dlock_option_help(size_t index);
dlock_status dlock_client_open(const char *url, const dlock_options *options, dlock_client **ret_client, dlock_error *reterr);
dlock_status dlock_client_close(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);
dlock_status dlock_client_submit_close(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);
void dlock_client_free(dlock_client *client);
dlock_status dlock_client_fd(dlock_client *client, int32_t *ret_fd, dlock_error *reterr);
dlock_status dlock_client_next(dlock_client *client, int64_t timeout_ms, dlock_event *event, dlock_error *reterr);
dlock_status dlock_client_wake(dlock_client *client, dlock_error *reterr);
dlock_status dlock_client_stats(dlock_client *client, int64_t *values, size_t count, size_t *ret_count, dlock_error *reterr);
dlock_status dlock_client_metrics(dlock_client *client, char *buffer, size_t size, size_t *ret_size, dlock_error *reterr);
dlock_status dlock_client_ping(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);
dlock_status dlock_client_submit_ping(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);
dlock_status dlock_client_provision(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);
dlock_status dlock_client_submit_provision(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);
dlock_status dlock_client_list(dlock_client *client, int64_t cursor, int64_t timeout_ms, uint8_t *buffer, size_t size, size_t *ret_size, int64_t *ret_cursor, dlock_error *reterr);
dlock_status dlock_client_submit_list(dlock_client *client, int64_t cursor, int64_t timeout_ms, int64_t tag, dlock_error *reterr);
dlock_status dlock_client_fault(dlock_client *client, const char *what, const char *name, size_t name_size, int64_t value, dlock_error *reterr);
dlock_status dlock_client_check(dlock_client *client, int64_t timeout_ms, size_t *ret_count, dlock_error *reterr);
dlock_status dlock_client_submit_check(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);
dlock_status dlock_client_finding(dlock_client *client, size_t index, dlock_event *event, dlock_error *reterr);
const char *dlock_finding_name(int32_t finding);
dlock_status dlock_lock_new(dlock_client *client, int32_t kind, const char *name, size_t name_size, const dlock_options *options, dlock_lock **ret_lock, dlock_error *reterr);
dlock_status dlock_lock_new_multi(dlock_client *client, dlock_lock **members, size_t count, dlock_lock **ret_lock, dlock_error *reterr);
void dlock_lock_free(dlock_lock *lock);
int64_t dlock_lock_id(const dlock_lock *lock);
dlock_status dlock_lock_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token, dlock_error *reterr);
dlock_status dlock_lock_release(dlock_lock *lock, int64_t owner, dlock_error *reterr);
dlock_status dlock_lock_acquire_local(dlock_lock *lock, int64_t owner, int64_t *ret_token, dlock_error *reterr);
dlock_status dlock_lock_release_local(dlock_lock *lock, int64_t owner, dlock_error *reterr);
dlock_status dlock_lock_submit_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_submit_release(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_begin_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, int64_t *ret_token, dlock_error *reterr);
dlock_status dlock_lock_begin_release(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_cancel(dlock_lock *lock, int64_t owner, dlock_error *reterr);
dlock_status dlock_lock_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, dlock_error *reterr);
dlock_status dlock_lock_submit_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_force_release(dlock_lock *lock, dlock_error *reterr);
dlock_status dlock_lock_submit_force_release(dlock_lock *lock, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_state(dlock_lock *lock, int64_t owner, int32_t *ret_state, dlock_error *reterr);
dlock_status dlock_lock_remaining_ms(dlock_lock *lock, int64_t owner, int64_t *ret_remaining_ms, dlock_error *reterr);
dlock_status dlock_lock_token(dlock_lock *lock, int64_t owner, int64_t *ret_token, dlock_error *reterr);
dlock_status dlock_lock_hold_count(dlock_lock *lock, int64_t owner, int64_t *ret_count, dlock_error *reterr);
dlock_status dlock_lock_inspect(dlock_lock *lock, dlock_event *event, dlock_error *reterr);
dlock_status dlock_lock_submit_inspect(dlock_lock *lock, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_export_grant(dlock_lock *lock, int64_t owner, uint8_t *buffer, size_t size, size_t *ret_size, dlock_error *reterr);
dlock_status dlock_lock_submit_export_grant(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size, int64_t *ret_token, dlock_error *reterr);
dlock_status dlock_lock_submit_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_close_gate(dlock_lock *lock, int64_t ttl_ms, dlock_error *reterr);
dlock_status dlock_lock_submit_close_gate(dlock_lock *lock, int64_t ttl_ms, int64_t tag, dlock_error *reterr);
dlock_status dlock_lock_open_gate(dlock_lock *lock, dlock_error *reterr);
dlock_status dlock_lock_submit_open_gate(dlock_lock *lock, int64_t tag, dlock_error *reterr);
dlock_status dlock_semaphore_set(dlock_lock *lock, int64_t permits, dlock_error *reterr);
dlock_status dlock_semaphore_submit_set(dlock_lock *lock, int64_t permits, int64_t tag, dlock_error *reterr);
dlock_status dlock_semaphore_add(dlock_lock *lock, int64_t permits, int64_t *ret_available, dlock_error *reterr);
dlock_status dlock_semaphore_submit_add(dlock_lock *lock, int64_t permits, int64_t tag, dlock_error *reterr);
dlock_status dlock_semaphore_drain(dlock_lock *lock, int64_t *ret_drained, dlock_error *reterr);
dlock_status dlock_semaphore_submit_drain(dlock_lock *lock, int64_t tag, dlock_error *reterr);
dlock_status dlock_semaphore_reclaim(dlock_lock *lock, int64_t silent_ms, int64_t *ret_reclaimed, dlock_error *reterr);
dlock_status dlock_semaphore_submit_reclaim(dlock_lock *lock, int64_t silent_ms, int64_t tag, dlock_error *reterr);
dlock_status dlock_semaphore_available(dlock_lock *lock, int64_t *ret_available, dlock_error *reterr);
dlock_status dlock_semaphore_submit_available(dlock_lock *lock, int64_t tag, dlock_error *reterr);
dlock_status dlock_semaphore_permit(dlock_lock *lock, int64_t owner, int64_t index, char *buffer, size_t size, dlock_error *reterr);
dlock_status dlock_latch_set(dlock_lock *lock, int64_t count, dlock_error *reterr);
dlock_status dlock_latch_submit_set(dlock_lock *lock, int64_t count, int64_t tag, dlock_error *reterr);
dlock_status dlock_latch_count_down(dlock_lock *lock, int64_t count, int64_t *ret_count, dlock_error *reterr);
dlock_status dlock_latch_submit_count_down(dlock_lock *lock, int64_t count, int64_t tag, dlock_error *reterr);
dlock_status dlock_latch_count(dlock_lock *lock, int64_t *ret_count, dlock_error *reterr);
dlock_status dlock_latch_submit_count(dlock_lock *lock, int64_t tag, dlock_error *reterr);
dlock_event *dlock_event_new(void);
void dlock_event_free(dlock_event *event);
int32_t dlock_event_type(const dlock_event *event);
dlock_status dlock_event_unpack(const dlock_event *event, int64_t *values, size_t count, size_t *ret_count, dlock_error *reterr);
const char *dlock_event_text(const dlock_event *event);
dlock_status dlock_event_data(const dlock_event *event, uint8_t *buffer, size_t size, size_t *ret_size, dlock_error *reterr);
dlock_status dlock_txn_new(dlock_client *client, dlock_txn **ret_txn, dlock_error *reterr);
void dlock_txn_free(dlock_txn *txn);
dlock_status dlock_txn_watch(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr);
dlock_status dlock_txn_submit_watch(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr);
dlock_status dlock_txn_get(dlock_txn *txn, const char *key, size_t key_size, uint8_t *buffer, size_t size, size_t *ret_size, dlock_error *reterr);
dlock_status dlock_txn_submit_get(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr);
dlock_status dlock_txn_set(dlock_txn *txn, const char *key, size_t key_size, const uint8_t *value, size_t value_size, int64_t ttl_ms, dlock_error *reterr);
dlock_status dlock_txn_incr(dlock_txn *txn, const char *key, size_t key_size, int64_t by, dlock_error *reterr);
dlock_status dlock_txn_delete(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr);
dlock_status dlock_txn_commit(dlock_txn *txn, dlock_error *reterr);
dlock_status dlock_txn_submit_commit(dlock_txn *txn, int64_t tag, dlock_error *reterr);
dlock_status dlock_txn_rollback(dlock_txn *txn, dlock_error *reterr);
dlock_status dlock_txn_submit_rollback(dlock_txn *txn, int64_t tag, dlock_error *reterr);
int64_t dlock_txn_pause_ms(int32_t attempt);
]],
constants = {
    DLOCK_OK = 0,
    DLOCK_BUSY = 1,
    DLOCK_TIMED_OUT = 2,
    DLOCK_CANCELLED = 3,
    DLOCK_INTERRUPTED = 4,
    DLOCK_WOULD_BLOCK = 5,
    DLOCK_NO_EVENT = 6,
    DLOCK_GATE_CLOSED = 7,
    DLOCK_CONFLICT = 8,
    DLOCK_NOT_FOUND = 9,
    DLOCK_UNCHANGED = 10,
    DLOCK_INVALID_ARGUMENT = -100,
    DLOCK_INVALID_NAME = -101,
    DLOCK_UNKNOWN_OPTION = -102,
    DLOCK_INVALID_OPTION = -103,
    DLOCK_INVALID_URL = -104,
    DLOCK_UNSUPPORTED = -105,
    DLOCK_OUT_OF_MEMORY = -106,
    DLOCK_CLOSED = -107,
    DLOCK_FORKED = -108,
    DLOCK_BUFFER_TOO_SMALL = -109,
    DLOCK_SYSTEM_ERROR = -110,
    DLOCK_DUPLICATE_NAME = -111,
    DLOCK_INVALID_QUORUM = -112,
    DLOCK_NOT_HELD = -200,
    DLOCK_LOST = -201,
    DLOCK_WRONG_KIND = -202,
    DLOCK_UNKNOWN_OUTCOME = -203,
    DLOCK_INVALID_GRANT = -204,
    DLOCK_UPGRADE_REFUSED = -205,
    DLOCK_NO_TRANSACTION = -207,
    DLOCK_UNREACHABLE = -300,
    DLOCK_DENIED = -301,
    DLOCK_SERVER_LOADING = -302,
    DLOCK_SERVER_BUSY = -303,
    DLOCK_SERVER_OUT_OF_MEMORY = -304,
    DLOCK_SERVER_READ_ONLY = -305,
    DLOCK_PROTOCOL_ERROR = -306,
    DLOCK_SERVER_ERROR = -307,
    DLOCK_TLS_FAILED = -310,
    DLOCK_WRONG_SETUP = -311,
    DLOCK_QUARANTINED = -312,
    DLOCK_LEASE_REFUSED = -313,
    DLOCK_NOT_REPLICATED = -314,
    DLOCK_SERVER_FORGOT = -315,
    DLOCK_UNFIT = -316,
    DLOCK_KIND_MUTEX = 1,
    DLOCK_KIND_FAIR = 2,
    DLOCK_KIND_READ = 3,
    DLOCK_KIND_WRITE = 4,
    DLOCK_KIND_SEMAPHORE = 5,
    DLOCK_KIND_PERMIT_SEMAPHORE = 6,
    DLOCK_KIND_LATCH = 7,
    DLOCK_KIND_MULTI = 8,
    DLOCK_STATE_NONE = 0,
    DLOCK_STATE_WAITING = 1,
    DLOCK_STATE_HELD = 2,
    DLOCK_STATE_AT_RISK = 3,
    DLOCK_STATE_LOST = 4,
    DLOCK_CAUSE_NONE = 0,
    DLOCK_CAUSE_EXPIRED = 1,
    DLOCK_CAUSE_TAKEN = 2,
    DLOCK_CAUSE_MAX_HOLD = 3,
    DLOCK_CAUSE_CLOSED = 4,
    DLOCK_EVENT_NONE = 0,
    DLOCK_EVENT_ACQUIRED = 1,
    DLOCK_EVENT_ACQUIRE_FAILED = 2,
    DLOCK_EVENT_RELEASED = 3,
    DLOCK_EVENT_RELEASE_FAILED = 4,
    DLOCK_EVENT_AT_RISK = 5,
    DLOCK_EVENT_LOST = 6,
    DLOCK_EVENT_LOG = 7,
    DLOCK_EVENT_INSPECTION = 8,
    DLOCK_EVENT_DONE = 9,
    DLOCK_EVENT_FINDING = 10,
    DLOCK_FINDING_EVICTION = 1,
    DLOCK_FINDING_PERSISTENCE = 2,
    DLOCK_FINDING_PERSISTENCE_FAILS = 3,
    DLOCK_FINDING_VERSION = 4,
    DLOCK_FINDING_READ_ONLY = 5,
    DLOCK_FINDING_REPLICAS = 6,
    DLOCK_FINDING_CLOCK = 7,
    DLOCK_FINDING_COMMAND_MISSING = 8,
    DLOCK_FINDING_COMMAND_DENIED = 9,
    DLOCK_FINDING_WRITE_REFUSED = 10,
    DLOCK_FINDING_NO_ANSWER = 11,
    DLOCK_FINDING_NO_LEADER = 12,
    DLOCK_FINDING_ALARM = 13,
    DLOCK_FINDING_OPEN = 14,
    DLOCK_FINDING_FAULTY_VERSION = 15,
    DLOCK_FINDING_OLD_VERSION = 16,
    DLOCK_SEVERITY_WARNING = 1,
    DLOCK_SEVERITY_DANGER = 2,
    DLOCK_FIELD_TYPE = 0,
    DLOCK_FIELD_STATUS = 1,
    DLOCK_FIELD_TAG = 2,
    DLOCK_FIELD_LOCK_ID = 3,
    DLOCK_FIELD_OWNER = 4,
    DLOCK_FIELD_TOKEN = 5,
    DLOCK_FIELD_REMAINING_MS = 6,
    DLOCK_FIELD_CAUSE = 7,
    DLOCK_FIELD_HELD_FOR_MS = 8,
    DLOCK_FIELD_WAITERS = 9,
    DLOCK_FIELD_FOREIGN = 10,
    DLOCK_FIELD_VALUE = 11,
    DLOCK_FIELD_COUNT = 12,
    DLOCK_STAT_ACQUIRED = 0,
    DLOCK_STAT_WIRE_GRANTS = 1,
    DLOCK_STAT_PUSHED_GRANTS = 2,
    DLOCK_STAT_HANDOVERS = 3,
    DLOCK_STAT_RELEASED = 4,
    DLOCK_STAT_LOST = 5,
    DLOCK_STAT_RENEWED = 6,
    DLOCK_STAT_RENEWALS_LATE = 7,
    DLOCK_STAT_RENEWAL_SCRIPTS = 8,
    DLOCK_STAT_UNDONE = 9,
    DLOCK_STAT_COMMANDS = 10,
    DLOCK_STAT_CONNECTS = 11,
    DLOCK_STAT_CONNECT_FAILURES = 12,
    DLOCK_STAT_SCRIPT_RELOADS = 13,
    DLOCK_STAT_EVENTS_DROPPED = 14,
    DLOCK_STAT_HELD = 15,
    DLOCK_STAT_WAITING = 16,
    DLOCK_STAT_LOCKS = 17,
    DLOCK_STAT_COUNT = 18,
},
}
