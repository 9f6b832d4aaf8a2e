/*
 * sim_calls.h: functions that the files of the simulator share; included by sim.h.
 */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

/* ---- random numbers, sim_heap.c */
uint64_t sim_random(struct sim *s);
int64_t sim_below(struct sim *s, int64_t limit);
int64_t sim_between(struct sim *s, int64_t low, int64_t high);
int sim_percent(struct sim *s, int percent);
int sim_fault(struct sim *s, enum sim_fault fault); /* whether it strikes now; counts it */
void sim_fired(struct sim *s, enum sim_fault fault);
void sim_mix(struct sim *s, uint64_t value);

/* ---- events and memory, sim_heap.c */
void sim_at(struct sim *s, int64_t at, enum sim_kind kind, int who, int64_t number, void *what);
void sim_defer(struct sim *s, struct sim_event event, int64_t at);
int sim_next(struct sim *s, struct sim_event *event);
void sim_hurry(struct sim *s, int64_t at);   /* all messages in flight arrive by then, late copies never do */
void *sim_alloc(struct sim *s, size_t size); /* zeroed, until the end of the run */

/* ---- clocks, sim_run.c */
int64_t sim_clock(const struct sim *s, const struct sim_peer *peer);
int64_t sim_server_clock(const struct sim *s);
int64_t sim_when(const struct sim *s, const struct sim_peer *peer, int64_t clock); /* true time of a clock's time */
int64_t sim_expiry(const struct sim *s, int64_t expires_ms); /* true time at which a key is gone */
int sim_paused(const struct sim *s, const struct sim_peer *peer);
void sim_disturb(struct sim *s, struct sim_peer *peer, int64_t until);
void sim_pause(struct sim *s, struct sim_peer *peer, int64_t until);
void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_violated(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

void sim_plan(struct sim *s);
int sim_replay(const char *scripts);       /* sim_replay.c */
int sim_run(struct sim *s, uint64_t seed); /* 0, or -1 with s->failed */

/* ---- the network */
void sim_send(struct sim *s, struct sim_request *request);
void sim_arrive(struct sim *s, struct sim_request *request);
void sim_reply(struct sim *s, struct sim_event event);
void sim_timeout(struct sim *s, struct sim_request *request);
void sim_failed(struct sim *s, struct sim_request *request);
void sim_drop_conn(struct sim *s, struct sim_peer *peer, int conn, int64_t down);
int64_t sim_delay(struct sim *s);
void sim_complete(struct sim *s, struct sim_request *request); /* tell the caller; status is set */

void sim_execute(struct sim *s, struct sim_request *request);
struct sim_seen sim_look(struct sim *s, int lock);
int64_t sim_publish(void *world, struct sim_word channel, struct sim_word message);
int64_t sim_subscribers(void *world, struct sim_word channel);

enum { SIM_OWN_CHANNEL = -1, SIM_UNSUBSCRIBE = 100 };
void sim_subscriber_open(struct sim *s, struct sim_peer *peer);
void sim_subscriber_close(struct sim *s, struct sim_subscriber *subscriber, int late);
void sim_subscribe(struct sim *s, struct sim_peer *peer, int what);
void sim_subscriber_arrive(struct sim *s, struct sim_subscriber *subscriber, int what);
void sim_chaos(struct sim *s);
void sim_calm(struct sim *s);

/* ---- clients */
void sim_driver_start(struct sim *s, struct sim_peer *peer);
void sim_driver_end(const struct sim *s, struct sim_peer *peer);
void sim_service(struct sim *s, struct sim_peer *peer, int lock);
void sim_alarm(struct sim *s, struct sim_event event);
void sim_pushed(struct sim *s, struct sim_peer *peer, const struct sim_push *push);
void sim_subscribed(struct sim *s, struct sim_peer *peer, int what); /* a subscription is confirmed */
void sim_line_broken(struct sim *s, struct sim_peer *peer);
void sim_line_retry(struct sim *s, struct sim_peer *peer);
void sim_exchange_done(struct sim *s, struct sim_request *request);
void sim_renewal_done(struct sim *s, struct sim_request *request);
void sim_close_process(struct sim *s, struct sim_peer *peer);

void sim_owner_start(struct sim *s, struct sim_peer *peer);
void sim_owner_step(struct sim *s, struct sim_owner *owner);
void sim_owner_wake(struct sim *s, struct sim_owner *owner, int64_t after);
struct sim_claim *sim_make_claim(struct sim *s, const struct sim_owner *owner);
void sim_owner_told(struct sim *s, struct sim_claim *claim); /* a claim came out of done or reports */

void sim_extend(struct sim *s, struct sim_owner *owner);
void sim_export(struct sim *s, struct sim_owner *owner);
void sim_grant_arrives(struct sim *s, struct sim_peer *peer, void *moving);
void sim_order_done(struct sim *s, struct sim_request *request);

void sim_redisson_start(struct sim *s, struct sim_peer *peer);
void sim_redisson_step(struct sim *s, struct sim_peer *peer);
void sim_redisson_done(struct sim *s, struct sim_request *request);
void sim_redisson_received(struct sim *s, struct sim_peer *peer, int message);
void sim_redisson_broken(struct sim *s, struct sim_peer *peer);

/* ---- rules */
struct sim_number *sim_number(struct sim *s, struct sim_peer *peer, int64_t number);
void sim_check_script(struct sim *s, const struct sim_request *request, int lock, struct sim_seen before);
void sim_check_step(struct sim *s);
void sim_check_renewal(struct sim *s, struct sim_peer *peer, int64_t number);
void sim_check_granted(struct sim *s, struct sim_claim *claim);
void sim_check_lost(struct sim *s, struct sim_claim *claim);
void sim_check_at_risk(struct sim *s, const struct sim_claim *claim);
void sim_check_released(struct sim *s, struct sim_claim *claim);
void sim_check_end(struct sim *s);
extern const char *const sim_red_acquire, *const sim_red_renew, *const sim_red_release;
int64_t sim_patience(const struct sim *s); /* how long a waiter may have to wait in calm times */

/* ---- a server that loses all of its memory, sim_forget.c */
void sim_forget(struct sim *s);
void sim_restart(struct sim *s);
void sim_check_told(struct sim *s, struct sim_peer *peer, struct sim_number *number, int there);
void sim_unsubscribe_all(struct sim *s, struct sim_peer *peer, int silent);

/* ---- other kinds than the mutex, sim_kinds.c and sim_kinds_check.c */
int sim_world_find(const char *name);
void sim_kinds_plan(struct sim *s);
void sim_kinds_name(struct sim *s, int index);
void sim_kinds_open(struct sim *s);
const char *sim_kinds_script(const struct sim *s, const struct sim_request *request);
void sim_kinds_owner(const struct sim *s, int lock, int peer, int64_t number, char *text);
int sim_kinds_keys(struct sim *s, const struct sim_request *request, struct sim_word *keys);
int sim_kinds_held(struct sim *s, const struct sim_request *request); /* the server has what it requests */
void sim_kinds_ran(struct sim *s, const struct sim_request *request, int held);
void sim_kinds_step(struct sim *s);
void sim_kinds_end(struct sim *s);
int64_t sim_kinds_ends(struct sim *s, int lock, int peer, int64_t number); /* ms; -1: the server has it not */
int64_t sim_kinds_keeps(struct sim *s, int lock, int peer, int64_t number);
int sim_writes(const struct sim *s, int lock); /* it is a writer's machine */
int sim_others_wait(const struct sim *s, const struct sim_peer *peer, int lock);
int sim_kinds_side(struct sim *s, const struct sim_owner *owner);

/* ---- turns in memory, sim_kinds.c */
int sim_pass(struct sim *s, const struct sim_owner *owner); /* 1: the owner's grant went to another machine */
void sim_check_passed(struct sim *s, const struct sim_claim *claim);
int sim_shared(const struct sim *s); /* every owner has a machine of its own: the rules of the mutex do not apply */

/* ---- the fair lock, sim_turns.c */
int sim_fair(const struct sim *s);
void sim_fair_ran(struct sim *s, const struct sim_seen *before);
int64_t sim_turns_end(struct sim *s, int peer, int64_t number); /* ms; -1: the server has it not */
int sim_turns_side(const struct sim *s, const struct sim_peer *peer, int64_t number); /* whose number it is */
void sim_turns_begin(struct sim_side *side, const char *text);                        /* a grant names the next ones */
int sim_turns_next(struct sim *s, struct sim_peer *peer, int from, int to);           /* whether to is the next one */
void sim_turns_move(struct sim *s, struct sim_peer *peer, int from, int to);
void sim_turns_tell(const struct sim *s, const struct sim_side *side, struct sim_request *request);
void sim_turns_stray(struct sim *s, struct sim_peer *peer, int64_t number); /* granted, and nobody waits for it */
void sim_turns_ran(struct sim *s, const struct sim_request *request, const struct sim_seen *before);
void sim_turns_granted(struct sim *s, const struct sim_claim *claim);
void sim_turns_over(struct sim *s);

#endif
