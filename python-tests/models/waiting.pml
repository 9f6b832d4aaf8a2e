/*
 * M4: waiting for a lock that is granted by push, with connections that break and holders that vanish.
 *
 * Stands for: src/client/line.c and src/engine/mutex*.c (subscribe first, then try again, then sleep; probe after a
 * reconnect and when a foreign channel is subscribed), src/redis/scripts/mutex/try.lua, release.lua, giveup.lua and pass_on in common.lua.
 * Modelled: one process per waiter with a line of subscriptions, the order of steps between it and the server, grants pushed
 * to subscribers, messages lost with a connection that the server still takes for alive, cancelled waits, a foreign client
 * that deletes and publishes, holders that crash, expiry, the timer set for the holder's time to live.
 * Left out: the probe of every waiter every few seconds whatever happens (nothing may depend on it); turns of foreign
 * clients; lost commands (lease.pml); time: expiry and the timer's probe come at any moment after their cause.
 *
 * Right:  (nothing)   no lost wake-up: who waits is served or cancelled, there is no state in which all sleep
 *         FOREVER     every waiter that goes on waiting is served (weak fairness), whatever the others do
 * Broken: SLEEP_UNSUBSCRIBED   try, then subscribe, then sleep   NO_PROBE   no probe after a reconnect
 *         NO_TIMER    no timer for the holder's time to live   FOREIGN_LATE   no probe once the foreign channel is subscribed
 *         CANCEL_KEEPS   a cancelled wait keeps a grant that was on its way, and renews it
 *         FOREVER LAST_FIRST WAITERS=3   a release grants to the last in line
 */
#ifndef WAITERS
#define WAITERS 2
#endif
#define ROUNDS 2 /* of each waiter */
#ifndef BREAKS
#define BREAKS 2
#endif
#define CANCELS 1
#ifndef FOREIGN_TURNS
#define FOREIGN_TURNS 2
#endif

#define NOBODY 20
#define FOREIGN 21
#define GONE 22

byte holder = NOBODY;
bool unknown;            /* its holder does not know, or is gone: nobody renews */
bool expired;            /* free because a lease ended */
chan line = [WAITERS] of { byte };
bool in_line[WAITERS];
bool subscribed[WAITERS];     /* the server has a subscription to the waiter's channel */
bool follows[WAITERS];       /* and one to the lock's */
bool up[WAITERS];        /* the connection is there */
bool granted[WAITERS];    /* received, not yet read: a grant; a hint to probe */
bool hinted[WAITERS];
bool waits[WAITERS];
byte breaks = BREAKS;
byte cancels = CANCELS;

inline grant(who, knows) {
    holder = who; unknown = !knows; expired = 0
}

/* To a connection that is gone it is lost. */
#define send_grant(who) granted[who] = up[who]
#define send_hint(who) hinted[who] = (up[who] -> 1 : hinted[who])

/* The free lock: to the first in line that is subscribed, or else to whoever comes: foreign clients get a message. */
inline pass_on() {
    holder = NOBODY; unknown = 0;
    do
    :: len(line) > 0 ->
#ifdef LAST_FIRST
        n = len(line);
        do
        :: n > 1 -> line ? w; line ! w; n--
        :: else -> break
        od;
        n = 0;
#endif
        line ? w; in_line[w] = 0;
        if
        :: subscribed[w] -> grant(w, 0); send_grant(w); break
        :: else
        fi
    :: len(line) == 0 -> hint_all(); break
    od;
    w = 0
}

inline hint_all() {
    w = 0;
    do
    :: w < WAITERS ->
        if
        :: follows[w] -> send_hint(w)
        :: else
        fi;
        w++
    :: else -> break
    od
}

/* One try. Its own grant once more; or what is free when no subscriber stands before it; or a place in line. */
inline try(stand) {
    got = 0;
    if
    :: holder == me -> grant(me, 1); got = 1
    :: holder == NOBODY ->
        do
        :: len(line) > 0 ->
            line ? w; in_line[w] = 0;
            if
            :: w == me -> grant(me, 1); got = 1; break
            :: w != me && subscribed[w] -> grant(w, 0); send_grant(w); break
            :: else
            fi
        :: len(line) == 0 -> grant(me, 1); got = 1; break
        od;
        w = 0
    :: else
    fi;
    if
    :: !got && stand && !in_line[me] -> line ! me; in_line[me] = 1
    :: else
    fi;
    foreign = (holder == FOREIGN)
}

inline give_up() {
    if
#ifdef CANCEL_KEEPS
    :: holder == me -> unknown = 0
#else
    :: holder == me -> pass_on()
#endif
    :: holder != me && in_line[me] -> line ?? eval(me); in_line[me] = 0
    :: holder != me && !in_line[me]
    fi;
    waits[me] = 0
}

#ifdef FOREVER /* a grant that came in is read before it has ended: otherwise it may go on like that for ever */
#define unread (holder == 0 && granted[0] || holder == 1 && granted[1])
#else
#define unread 0
#endif

inline lose() {
    breaks--; up[k] = 0; granted[k] = 0; hinted[k] = 0
}

active [WAITERS] proctype a_waiter() {
    byte me = _pid, w, n, round;
    bool got, foreign;

    do
#ifndef FOREVER
    :: round == ROUNDS -> break
    :: round < ROUNDS -> round++;
#else
    :: true;
#endif
        d_step { waits[me] = 1; try(0) }
        do
        :: got -> break
        :: !got && !up[me] -> d_step { up[me] = 1; subscribed[me] = 0; follows[me] = 0 } /* connect */
        :: !got && up[me] && !subscribed[me] -> /* subscribe, and have it confirmed */
#ifdef SLEEP_UNSUBSCRIBED
            d_step { try(1) };
            if
            :: up[me] -> subscribed[me] = 1
            :: !up[me]
            fi;
            if
            :: !got -> goto sleep
            :: got
            fi
#else
            if
            :: d_step { up[me] -> subscribed[me] = 1 }
            :: !up[me]
            fi
#endif
        :: !got && up[me] && subscribed[me] ->
            d_step { try(1) };
            if
            :: !got && foreign && !follows[me] ->
                if
                :: d_step { up[me] -> follows[me] = 1 }
                :: !up[me]
                fi;
#ifdef FOREIGN_LATE
                goto sleep
#endif
            :: !got && (!foreign || follows[me]) ->
sleep:
                if
                :: granted[me] ->
                    d_step { granted[me] = 0;
                        if
                        :: holder == me -> grant(me, 1); got = 1
                        :: else
                        fi }
                :: hinted[me] -> hinted[me] = 0
#ifndef NO_PROBE
                :: !up[me]
#else
                :: !up[me] -> d_step { up[me] = 1; subscribed[me] = 1; follows[me] = foreign }; goto sleep
#endif
#ifndef NO_TIMER
                :: expired
#endif
#ifndef FOREVER
                :: d_step { cancels > 0 -> cancels--; give_up() }; goto next
#endif
                fi
            :: got
            fi
        od;
        waits[me] = 0;
        if
        :: d_step { holder == me -> pass_on() } /* release */
        :: d_step { holder == me -> holder = GONE; unknown = 1 } /* or crash, and come back as another */
        fi;
next:
        skip
    od
}

active proctype a_foreigner() {
    byte w, n, turns;
end:
    do
    :: d_step { turns < FOREIGN_TURNS && holder == NOBODY && empty(line) -> holder = FOREIGN; unknown = 0; expired = 0; turns++ }
    :: d_step { holder == FOREIGN -> holder = NOBODY; hint_all(); w = 0 }
    :: d_step { holder == FOREIGN && !unknown -> unknown = 1 }
    od
}

active proctype failures() {
    byte k;
end:
    do
    :: d_step { holder != NOBODY && unknown && !(unread) -> holder = NOBODY; unknown = 0; expired = 1 }
    :: d_step { breaks > 0 && up[0] -> k = 0; lose() }
    :: d_step { breaks > 0 && up[1] -> k = 1; lose(); k = 0 }
    :: d_step { !up[0] && subscribed[0] -> subscribed[0] = 0; follows[0] = 0 } /* the server notices */
    :: d_step { !up[1] && subscribed[1] -> subscribed[1] = 0; follows[1] = 0 }
    od
}

#ifdef FOREVER
ltl served { [] (waits[0] -> <> !waits[0]) }
#endif
