/*
 * M7: fencing tokens of a lock on a quorum of servers that count each for itself.
 *
 * Stands for: rule b.5.4 of the design's token part (the quorum store was not in src/ when this was written).
 * Modelled: an acquisition takes the lock on servers one by one and learns their counters; with a quorum it chooses the highest
 * plus one, writes it back as the floor of a quorum's counters, and only then is the grant reported. The write-back of a
 * server is refused when the lock there is no longer its own. Every message may be lost or late, every step may be the last.
 * Any server's lock may end at any time: no clocks, so that holders may be paused as long as they like.
 *
 * Right:  CLIENTS=2   all tokens reported differ, and one is higher than all that were reported before its acquisition began
 * Broken: ONE_ROUND   each server counts, the highest of a quorum is the token
 *         BLIND       the write-back does not check the lock
 *         FLOOR_OF_ONE   the token is written back to one server only
 *         FORGETS     a server loses its counter
 */
#define SERVERS 3
#define QUORUM 2
#ifndef CLIENTS
#define CLIENTS 3
#endif
#define MOST 4 /* of a counter: with it no more votes */
#ifdef FLOOR_OF_ONE
#define FLOORS 1
#else
#define FLOORS QUORUM
#endif

#define IDLE 0
#define VOTES 1
#define WRITES 2

#define NOBODY 7

typedef Server {
    byte owner = NOBODY;
    byte counter;
}

typedef Client {
    byte state;
    byte from;      /* bit of each server that has voted or written */
    byte highest;   /* counter seen; the token when it writes back */
    byte before;    /* highest token reported when the acquisition began */
}

Server server[SERVERS];
Client client[CLIENTS];
byte highest_report;
short reported; /* bit of each token */

#define me client[_pid]
#define bits(set) ((set & 1) + ((set >> 1) & 1) + ((set >> 2) & 1))

inline leave() {
    server[0].owner = (server[0].owner == _pid -> NOBODY : server[0].owner);
    server[1].owner = (server[1].owner == _pid -> NOBODY : server[1].owner);
    server[2].owner = (server[2].owner == _pid -> NOBODY : server[2].owner);
    me.state = IDLE; me.from = 0; me.highest = 0; me.before = 0
}

inline report() {
    assert(me.highest > me.before);
    assert(!(reported & (1 << me.highest)));
    reported = reported | (1 << me.highest);
    highest_report = (me.highest > highest_report -> me.highest : highest_report);
    me.state = IDLE; me.from = 0; me.highest = 0; me.before = 0
}

inline vote(s) {
    server[s].owner = _pid;
#ifdef ONE_ROUND
    server[s].counter++;
#endif
    me.from = me.from | (1 << s);
    me.highest = (server[s].counter > me.highest -> server[s].counter : me.highest);
    if
    :: bits(me.from) == QUORUM ->
#ifdef ONE_ROUND
        report()
#else
        me.state = WRITES; me.from = 0; me.highest++
#endif
    :: else
    fi
}

inline write_back(s) {
    server[s].counter = (server[s].counter < me.highest -> me.highest : server[s].counter);
    me.from = me.from | (1 << s);
    if
    :: bits(me.from) == FLOORS -> report()
    :: else
    fi
}

#ifdef BLIND
#define may_write(s) 1
#else
#define may_write(s) (server[s].owner == _pid)
#endif
#define votes(s) (me.state == VOTES && server[s].owner == NOBODY && server[s].counter < MOST && !(me.from & (1 << s)))
#define writes(s) (me.state == WRITES && may_write(s) && !(me.from & (1 << s)))

active [CLIENTS] proctype a_client() {
    do
    :: d_step { me.state == IDLE -> leave(); me.state = VOTES; me.before = highest_report }
    :: d_step { me.state != IDLE -> leave() }
    :: d_step { votes(0) -> vote(0) }
    :: d_step { votes(1) -> vote(1) }
    :: d_step { votes(2) -> vote(2) }
    :: d_step { writes(0) -> write_back(0) }
    :: d_step { writes(1) -> write_back(1) }
    :: d_step { writes(2) -> write_back(2) }
    od
}

active [SERVERS] proctype a_server() {
    byte s = _pid - CLIENTS;
    do
    :: d_step { server[s].owner != NOBODY -> server[s].owner = NOBODY } /* released, or the lease is over */
#ifdef FORGETS
    :: d_step { server[s].counter > 0 -> server[s].counter = 0; server[s].owner = NOBODY }
#endif
    od
}
