/*
 * exchange.c: what the machine sends, and what answers and messages change. See mutex.h.
 */
#include "mutex.h"

static enum dli_mode mode_now(int patient, enum dli_line line)
{
    if (!patient || line == DLI_LINE_ABSENT)
        return DLI_MODE_TRY;
    return line == DLI_LINE_READY ? DLI_MODE_LINE : DLI_MODE_POLL;
}

/* The token of a new number lies above all known ones. A number that is sent again may have an older token. */
static void new_number(struct dli_mutex *m)
{
    int64_t highest = m->rules->highest ? __atomic_load_n(m->rules->highest, __ATOMIC_RELAXED) : 0;

    m->want.number = dli_mutex_mint(m);
    m->want.state = DLI_WANT_FRESH;
    if (m->tokens.end <= highest)
        m->tokens.end = highest + 1;
}

static void raise_highest(struct dli_mutex *m)
{
    int64_t last = m->tokens.end - 1, before = 0;

    while (m->rules->highest && before < last &&
           !__atomic_compare_exchange_n(m->rules->highest, &before, last, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* What the last probe saw, with the time that is left of it now. Our clock may be fast. */
static struct dli_seen seen_now(const struct dli_mutex *m, int64_t now)
{
    struct dli_seen seen = m->active->seen;
    int64_t since = now - m->active->seen_at;

    seen.left -= since - since / 1000000 * m->rules->drift_ppm;
    if (seen.left < 0)
        seen.left = 0;
    return seen;
}

static void wish_want(struct dli_mutex *m, enum dli_line line, int64_t now, struct dli_wish *wish)
{
    const struct dli_claim *first = DLI_OBJECT(m->active->waiting.next, struct dli_claim, link);

    if (m->want.state == DLI_WANT_NONE)
        new_number(m);
    wish->want = m->want.number;
    wish->lease = first->lease;
    wish->patient = m->waiters > m->active->hasty;
    wish->mode = mode_now(wish->patient, line);
    wish->seq = ++m->probe_seq;
    wish->seen = seen_now(m, now);
}

int dli_mutex_wish(struct dli_mutex *m, enum dli_line line, int64_t now, struct dli_wish *wish)
{
    int wants = m->waiters > 0 && !m->parked && !dli_mutex_owned(m) && !m->adopting && now >= m->active->want_at;

    if (m->active->sent.in_flight)
        return 0;
    if (m->want.state != DLI_WANT_NONE && !dli_mutex_owned(m) && !wants && !m->active->drop.number)
        dli_mutex_start_drop(m, 0, now);
    if ((!wants && !m->active->drop.number) || now < m->active->probe_at)
        return 0;
    *wish = (struct dli_wish){.drop = m->active->drop.number, .lease = m->grant.lease};
    if (wants && !(m->active->drop.number && (m->rules->separate || m->active->drop.first)))
        wish_want(m, line, now, wish);
    wish->first = m->active->drop.number ? m->active->drop.first : 0;
    wish->doubt = m->active->drop.number && m->active->drop.doubt;
    wish->rest = m->active->drop.number && m->active->drop.rest > now ? m->active->drop.rest - now : 0;
    wish->permits = m->rules->permits;
    wish->block = m->rules->handover_turns + 1;
    wish->beat = dli_mutex_beat(m);
    wish->attempt = dli_lease_attempt(wish->lease, m->rules->attempt);
    wish->listening = m->line.listening;
    wish->pollers = m->rules->pollers;
    return 1;
}

void dli_mutex_sent(struct dli_mutex *m, const struct dli_wish *wish, int64_t stamp)
{
    if (!m->active->sent.in_flight)
        m->active->sent.before = m->want.state;
    m->active->sent.in_flight = 1;
    m->active->again = DLI_NEVER;
    m->active->sent.wish = dli_asked_of(wish);
    m->active->sent.stamp = stamp;
    if (!wish->want)
        return;
    if (m->want.state == DLI_WANT_FRESH) {
        m->want.state = DLI_WANT_KNOWN;
        m->active->line_seq = 0;
        m->active->line_at = stamp;
        m->active->line_lease = wish->lease;
        m->want.longest_lease = 0;
    }
    m->active->line_lease = dli_earlier(m->active->line_lease, wish->lease);
    dli_mutex_extending(m, wish->lease);
    m->grant.lease = wish->lease;
}

/* Want is ours, as of stamp, or of since if that is earlier and not 0. The first waiter gets it, unless it is too late. */
static void take_ownership(struct dli_mutex *m, int64_t token, int64_t tokens, int64_t lease, int64_t stamp,
                           int64_t since, int64_t now)
{
    const struct dli_claim *first = DLI_OBJECT(m->active->waiting.next, struct dli_claim, link);

    m->renewing.confirm = now - stamp > lease / 10;
    if (since && since < stamp)
        stamp = since;
    m->want.state = DLI_WANT_OWNED;
    m->forgot = 0;
    m->line.listen = 0;
    m->active->gate_until = m->active->hinted = 0;
    m->grant = (struct dli_grant){lease, stamp, dli_lease_limit(stamp, lease, m->rules->drift_ppm)};
    m->tokens.next = token;
    m->tokens.end = token + tokens;
    raise_highest(m);
    m->handover = (struct dli_handover){.since = now};
    m->turns = 0;
    dli_mutex_renew_from(m, stamp);
    if (m->renewing.confirm)
        m->renewing.at = now;
    if (m->waiters > 0 && !m->closed && now < dli_mutex_use_until(m, first) - lease / 20) {
        dli_mutex_take_turn(m, now);
        return;
    }
    /* A late message may be about a grant that is over: the number may be in line again. */
    m->want.state = DLI_WANT_KNOWN;
    dli_mutex_start_drop(m, 0, now);
}

static void granted(struct dli_mutex *m, const struct dli_answer *answer, int64_t now)
{
    if (m->rules->momentary) {
        dli_mutex_end_answered(m, DLOCK_OK, 0);
        dli_mutex_forget_want(m);
    } else if (!dli_mutex_owned(m)) {
        take_ownership(m, answer->token, answer->tokens, m->active->sent.wish.lease, m->active->sent.stamp,
                       answer->since, now);
    } else if (m->active->sent.stamp > m->grant.stamp && m->active->sent.wish.lease == m->grant.lease) {
        m->grant.stamp = m->active->sent.stamp;
        m->grant.limit = dli_lease_limit(m->grant.stamp, m->grant.lease, m->rules->drift_ppm);
    }
}

/* The longest pause between a waiter's probes. */
static int64_t safe_pause(struct dli_mutex *m)
{
    return m->rules->safety - dli_mutex_jitter(m, m->rules->safety / 8);
}

void dli_mutex_park(struct dli_mutex *m, int on, int64_t ask_at, int64_t now)
{
    if (on) {
        m->line.needed = 1;
        m->line.listen = !m->rules->called;
    }
    if (m->parked && !on) {
        m->active->want_at = m->line.listening || m->rules->called ? dli_earlier(ask_at, now + safe_pause(m)) : now;
        m->active->probe_at = m->active->want_at;
    }
    m->parked = on != 0;
    if (m->waiters == 0 && m->want.state == DLI_WANT_NONE) /* it was parked from the start: nothing else ends this */
        m->line.listen = 0;
}

/* The lock was not granted: probe again after pause. */
static void probe_after(struct dli_mutex *m, int64_t pause, int64_t now)
{
    if ((!m->active->sent.wish.patient && m->waiters > 0) ||
        m->active->drop.number) /* a new waiter is not in line yet */
        pause = 0;
    m->active->probe_at = now + pause < m->active->again ? now + pause : m->active->again;
}

/* Whether the exchange that was sent last wants the number that is wanted now. */
static int still_wanted(const struct dli_mutex *m)
{
    return m->active->sent.wish.want && m->active->sent.wish.want == m->want.number;
}

/* The exchange has not made want known. */
static void restore_want(struct dli_mutex *m)
{
    if (!m->want.doubt)
        m->want.state = m->active->sent.before;
}

/* Someone else holds it. A push that came before this answer stands: the server made it later. */
static void held(struct dli_mutex *m, const struct dli_answer *answer, int64_t now)
{
    int64_t pause = safe_pause(m);
    int tries = m->active->sent.wish.mode == DLI_MODE_TRY;

    if (dli_mutex_owned(m))
        return;
    if (tries || m->rules->no_line)
        restore_want(m);
    m->active->line_seq = m->active->sent.wish.seq;
    m->active->line_at = m->active->sent.stamp;
    m->active->line_lease = m->active->sent.wish.lease;
    m->active->seen = answer->seen;
    m->active->seen_at = now;
    dli_mutex_end_answered(m, DLOCK_BUSY, 1);
    m->line.listen = m->waiters > 0 && (m->line.listen || (answer->foreign && !(tries && m->rules->called)));
    m->line.needed = m->waiters > 0;
    /* The lease of a pushed grant counts from the last probe. */
    if (m->rules->separate && !m->rules->momentary && !m->rules->no_line && !m->rules->called &&
        pause > m->active->sent.wish.lease / 3)
        pause = m->active->sent.wish.lease / 3;
    if (answer->left >= 0 && answer->left + 2 * DLI_MS < pause)
        pause = answer->left + 2 * DLI_MS;
    if (m->active->sent.wish.mode == DLI_MODE_POLL && pause > 75 * DLI_MS)
        pause = 50 * DLI_MS + dli_mutex_jitter(m, 25 * DLI_MS);
    probe_after(m, pause, now);
}

/*
 * The server grants nothing for a while, and want is not in line. Waiters wait until the quarantine ends. They probe
 * now and then, because it may end early. Jitter spreads the first probes after it.
 */
static void quarantine(struct dli_mutex *m, const struct dli_answer *answer, int64_t now)
{
    int64_t pause = answer->left + dli_mutex_jitter(m, 50 * DLI_MS) + DLI_MS;
    int64_t most = safe_pause(m);

    if (dli_mutex_owned(m))
        return;
    restore_want(m);
    m->active->failure = DLOCK_QUARANTINED;
    dli_mutex_end_answered(m, DLOCK_QUARANTINED, 1);
    probe_after(m, dli_earlier(pause, most), now);
}

static void dropped(struct dli_mutex *m, const struct dli_answer *answer)
{
    m->active->drop.number = m->active->drop.first = 0;
    if (m->active->leaving)
        dli_mutex_settle(m, m->active->leaving, answer->released || m->active->drop.unsure ? DLOCK_OK : DLOCK_LOST);
}

static int may_pass(dlock_status status)
{
    return status == DLOCK_UNREACHABLE || status == DLOCK_SERVER_LOADING || status == DLOCK_SERVER_BUSY ||
           status == DLOCK_SERVER_FORGOT;
}

/* A waiter may wait on. On a full server only one that has stood in line: others would begin what the server cannot keep. */
static int may_wait_on(const struct dli_mutex *m, dlock_status status)
{
    return may_pass(status) || (status == DLOCK_SERVER_OUT_OF_MEMORY && m->active->line_seq > 0);
}

/* Back off: the more failures in a row, the longer. */
static void retry_later(struct dli_mutex *m, dlock_status status, int64_t now)
{
    int64_t pause =
        dli_earlier((int64_t)20 * DLI_MS << (m->active->retries < 4 ? m->active->retries : 4), 250 * DLI_MS);

    m->active->retries++;
    m->active->failure = status;
    m->active->probe_at = now + pause / 2 + dli_mutex_jitter(m, pause / 2);
}

/*
 * The lock was granted, but not confirmed by enough servers. A mere try ends, and the grant is given back. Others ask
 * again by the same id, which is safe: replicas may be back before their time is over.
 */
static void unconfirmed(struct dli_mutex *m, const struct dli_answer *answer, int64_t now)
{
    retry_later(m, answer->status, now);
    if (m->active->sent.wish.drop && m->active->sent.wish.drop == m->active->drop.number && !answer->refused)
        dropped(m, answer);
    if (!still_wanted(m) || dli_mutex_owned(m))
        return;
    if (answer->refused)
        restore_want(m);
    dli_mutex_end_waiting(m, answer->status, 1);
}

static void failed(struct dli_mutex *m, const struct dli_answer *answer, int64_t now)
{
    retry_later(m, answer->hurried && m->active->failure == DLOCK_OK ? DLOCK_OK : answer->status, now);
    m->forgot |= answer->status == DLOCK_SERVER_FORGOT;
    if (still_wanted(m) && !dli_mutex_owned(m) && (!answer->sent || answer->refused))
        restore_want(m);
    if (answer->sent && !answer->refused && m->active->sent.wish.drop == m->active->drop.number)
        m->active->drop.unsure = 1;
    dli_mutex_end_waiting(m, answer->status, may_wait_on(m, answer->status));
    if (m->active->leaving && !may_pass(answer->status))
        dli_mutex_settle(m, m->active->leaving, answer->status);
    if (answer->status == DLOCK_CLOSED) { /* nothing will be sent any more */
        dli_mutex_forget_want(m);
        m->active->drop.number = 0;
    }
}

/* What a grant is worth, whether an answer or a message brought it. FALLS: its token is not above those before. */
enum worth { WORTH_NOTHING, WORTH_FALLS, WORTH_TAKING };

static enum worth weigh(const struct dli_mutex *m, int64_t token, int64_t tokens)
{
    if (!dli_grant_fits(token, tokens, m->rules->handover_turns + 1))
        return WORTH_NOTHING;
    return token < m->tokens.end ? WORTH_FALLS : WORTH_TAKING;
}

/* Whether the answer is a grant that the machine would take over now. */
static int is_new(const struct dli_mutex *m, const struct dli_answer *answer)
{
    return answer->status == DLOCK_OK && still_wanted(m) && answer->got == DLI_TRY_GRANTED && !dli_mutex_owned(m) &&
           !m->rules->momentary;
}

int dli_mutex_refuses(const struct dli_mutex *m, const struct dli_answer *answer)
{
    return is_new(m, answer) && weigh(m, answer->token, answer->tokens) == WORTH_FALLS;
}

/* Tokens never fall here. The grant goes back, and waiters try again until the tokens are higher. */
static void forgotten(struct dli_mutex *m, int64_t now)
{
    retry_later(m, DLOCK_SERVER_FORGOT, now);
    m->forgot = 1;
    dli_mutex_end_waiting(m, DLOCK_SERVER_FORGOT, 1);
}

/* A request that wants the number may still arrive, after this answer; or it may have arrived as late as now. */
static void note_doubt(struct dli_mutex *m, const struct dli_answer *answer, int64_t now)
{
    int doubt = answer->repeated || (answer->status != DLOCK_OK && answer->sent && !answer->refused);

    if (still_wanted(m))
        m->want.doubt = m->want.doubt || doubt;
    if (!m->active->drop.number || m->active->drop.number != m->active->sent.wish.want)
        return;
    m->active->drop.doubt = m->active->drop.doubt || doubt;
    m->active->drop.until = m->rules->kept ? DLI_NEVER : dli_lease_gone(now, dli_mutex_place(m), m->rules->drift_ppm);
}

static void apply_answer(struct dli_mutex *m, const struct dli_answer *answer, int64_t now)
{
    m->active->sent.in_flight = 0;
    note_doubt(m, answer, now);
    if (answer->status == DLOCK_NOT_REPLICATED && m->active->sent.wish.want) {
        unconfirmed(m, answer, now);
        return;
    }
    if (answer->status != DLOCK_OK) {
        failed(m, answer, now);
        return;
    }
    if (m->active->sent.wish.drop && m->active->sent.wish.drop == m->active->drop.number)
        dropped(m, answer);
    if (dli_mutex_refuses(m, answer)) {
        forgotten(m, now);
        return;
    }
    if (m->active->sent.wish.want ||
        m->active->failure != DLOCK_SERVER_FORGOT) { /* a low grant that went back has changed nothing */
        m->active->failure = DLOCK_OK;
        m->active->retries = 0;
    }
    m->active->probe_at = now;
    if (!still_wanted(m))
        return;
    if (answer->got == DLI_TRY_GRANTED) {
        granted(m, answer, now);
    } else if (answer->got == DLI_TRY_HELD) {
        held(m, answer, now);
    } else if (answer->got == DLI_TRY_QUARANTINE) {
        quarantine(m, answer, now);
    } else if (!dli_mutex_owned(m)) {
        dli_mutex_end_waiting(m, answer->got == DLI_TRY_GATE ? DLOCK_GATE_CLOSED : DLOCK_WRONG_KIND, 0);
        if (m->want.doubt) /* an earlier request for it may still arrive */
            dli_mutex_start_drop(m, 0, now);
        else
            dli_mutex_forget_want(m);
    }
}

/* Want must not be sent again. Two numbers are not dropped at once: want waits until drop is over. */
static int spent(const struct dli_mutex *m, const struct dli_answer *answer)
{
    return answer->spent || (m->active->failure == DLOCK_SERVER_FORGOT && !m->active->drop.number);
}

void dli_mutex_answer(struct dli_mutex *m, const struct dli_answer *said, int64_t now)
{
    struct dli_answer wrong = {.status = DLOCK_PROTOCOL_ERROR, .sent = 1, .repeated = said->repeated};
    const struct dli_answer *answer = said;

    if (is_new(m, said) && weigh(m, said->token, said->tokens) == WORTH_NOTHING)
        answer = &wrong;
    if (m->active->sent.wish.want)
        m->active->want_at = 0;
    apply_answer(m, answer, now);
    if (!spent(m, answer) || !still_wanted(m) || dli_mutex_owned(m))
        return;
    m->active->want_at = m->active->probe_at;
    m->want.state = DLI_WANT_KNOWN;
    dli_mutex_start_drop(m, 0, now);
    if (answer->status != DLOCK_OK) /* it cannot be released at once either */
        m->active->probe_at = m->active->want_at;
}

void dli_mutex_pushed(struct dli_mutex *m, int64_t number, int64_t seq, int64_t token, int64_t tokens, int64_t now)
{
    int64_t stamp = m->active->line_at, lease = m->active->line_lease;
    int sure = !m->rules->doubtful && weigh(m, token, tokens) == WORTH_TAKING;

    if (number != m->want.number)
        dli_mutex_give_back(m, number, now);
    else if (!sure)
        dli_mutex_hint(m, now);
    if (!sure || number != m->want.number || m->want.state != DLI_WANT_KNOWN || seq < m->active->line_seq ||
        seq > m->probe_seq)
        return;
    if (m->active->sent.wish.want == number && seq == m->active->sent.wish.seq) { /* a release alone is no probe */
        stamp = m->active->sent.stamp;
        lease = m->active->sent.wish.lease;
    }
    m->active->drop.number = 0;
    if (m->active->leaving)
        dli_mutex_settle(m, m->active->leaving, DLOCK_OK);
    take_ownership(m, token, tokens, lease, stamp, 0, now);
}
