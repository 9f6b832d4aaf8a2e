/*
 * M2: a lock on a quorum of three independent servers that may be out of reach, restart without their keys, or have a clock
 * that jumps.
 *
 * Stands for: the store of independent servers that the design calls quorum (not in src/ when this was written) and for the
 * limit in src/engine/lease.c, stamped before the first send.
 * Modelled: one round of requests to all servers per attempt or renewal, each of which may be lost before or after it was
 * carried out; releases that are lost or late; expiry; restarts. Ticks are relative: neither time, attempts nor restarts
 * are bounded, but for the faults that a right variant must be spared.
 * Left out: waiting, tokens (quorum_token.pml), pauses (lease.pml), requests that arrive behind the end of their attempt
 * (they only make a server refuse).
 *
 * Right:  (nothing)    two of three; a server is in quarantine for a lease after a restart; any number of restarts
 *         ALL LIES=2   three of three bear two servers whose clock jumps, or that forget and have no quarantine
 * Broken: NO_QUARANTINE   restarts without quarantine      LIES=1       two of three, one clock that jumps
 *         ALL LIES=3   three clocks that jump           MINORITY     one of three is enough
 *         REPLY_STAMP  the deadline counts from the reply that made the quorum
 *         NO_GUARD     the claim is used up to the deadline
 */
#define SERVERS 3
#define CLIENTS 2
#define LEASE 3
#if defined(ALL)
#define QUORUM 3
#elif defined(MINORITY)
#define QUORUM 1
#else
#define QUORUM 2
#endif
#ifdef NO_GUARD
#define GUARD 0
#else
#define GUARD 1
#endif
#ifndef LIES
#define LIES 0
#endif
#ifdef NO_QUARANTINE
#define QUARANTINE 0
#else
#define QUARANTINE LEASE
#endif

#define IDLE 0
#define WANTS 1
#define HOLDS 2

#define NONE 2 /* owners other than the clients */
#define STALE 3 /* a grant that its client has given up; the release is late or lost */

#define OVER 0 /* requests: none, or refused; on its way; granted, the reply is on its way; that was received */
#define REQUESTED 1
#define GRANTED 2
#define COUNTED 3

typedef Server {
    byte owner = NONE;
    byte ttl;
    byte quarantine;
    byte request[CLIENTS]; /* what became of a client's request to it */
}

typedef Client {
    byte state;
    bool round;     /* requests are under way */
    byte age;       /* of their stamp; stops at LEASE */
    byte left;      /* ticks until the deadline */
}

Server server[SERVERS];
Client client[CLIENTS];
byte believers;
byte lies = LIES;

#define me client[_pid]
#define count(s) (server[s].request[_pid] == COUNTED)
#define grants (count(0) + count(1) + count(2))
#define set_all(what) server[0].request[_pid] = what; server[1].request[_pid] = what; server[2].request[_pid] = what
#define due(c) (client[c].state == HOLDS && client[c].left <= GUARD)

inline forget(s) {
    server[s].owner = NONE; server[s].ttl = 0
}

inline end_round() {
    me.round = 0; me.age = 0;
    set_all(OVER)
}

inline begin_round() {
    me.round = 1; me.age = 0;
    set_all(REQUESTED)
}

inline serve(s) {
    if
    :: server[s].owner == _pid ->
        server[s].ttl = LEASE; server[s].request[_pid] = GRANTED
    :: server[s].owner == NONE && server[s].quarantine == 0 && me.state == WANTS ->
        server[s].owner = _pid; server[s].ttl = LEASE; server[s].request[_pid] = GRANTED
    :: else -> server[s].request[_pid] = OVER
    fi
}

/* Enough servers have granted: the claim counts from the stamp before the first send. */
inline accept() {
    if
#ifdef REPLY_STAMP
    :: me.left = LEASE;
#else
    :: LEASE - me.age > GUARD ->
        me.left = (LEASE - me.age > me.left -> LEASE - me.age : me.left);
#endif
        if
        :: me.state == WANTS ->
            me.state = HOLDS; believers++; assert(believers <= 1)
        :: else
        fi;
        end_round()
#ifndef REPLY_STAMP
    :: else -> end_round()
#endif
    fi
}

inline give_back(s) {
    if
    :: server[s].owner == _pid -> server[s].owner = STALE
    :: else
    fi
}

inline let_go() {
    if
    :: me.state == HOLDS -> believers--
    :: else
    fi;
    give_back(0); give_back(1); give_back(2);
    end_round();
    me.state = IDLE; me.left = 0
}

/* Servers differ in nothing but their state: they are kept in order, so that what is the same is visited once. */
#define rank(s) (server[s].owner + 4 * server[s].ttl + 16 * server[s].quarantine + 64 * server[s].request[0] + 256 * server[s].request[1])

inline swap(a, b) {
    if
    :: rank(a) > rank(b) ->
        t = server[a].owner; server[a].owner = server[b].owner; server[b].owner = t;
        t = server[a].ttl; server[a].ttl = server[b].ttl; server[b].ttl = t;
        t = server[a].quarantine; server[a].quarantine = server[b].quarantine; server[b].quarantine = t;
        t = server[a].request[0]; server[a].request[0] = server[b].request[0]; server[b].request[0] = t;
        t = server[a].request[1]; server[a].request[1] = server[b].request[1]; server[b].request[1] = t;
        t = 0
    :: else
    fi
}

#define in_order swap(0, 1); swap(1, 2); swap(0, 1)

/* The same for the two clients. */
#define weight(c) (client[c].state + 4 * client[c].round + 8 * client[c].age + 32 * client[c].left)

inline exchange(a) {
    server[a].owner = (server[a].owner < CLIENTS -> 1 - server[a].owner : server[a].owner);
    t = server[a].request[0]; server[a].request[0] = server[a].request[1]; server[a].request[1] = t
}

inline clients_in_order() {
    if
    :: weight(0) > weight(1) ->
        t = client[0].state; client[0].state = client[1].state; client[1].state = t;
        t = client[0].round; client[0].round = client[1].round; client[1].round = t;
        t = client[0].age; client[0].age = client[1].age; client[1].age = t;
        t = client[0].left; client[0].left = client[1].left; client[1].left = t;
        exchange(0); exchange(1); exchange(2);
        t = 0
    :: else
    fi
}

#define settle clients_in_order(); in_order

inline count_vote(s) {
    server[s].request[_pid] = COUNTED;
    if
    :: grants >= QUORUM -> accept()
    :: else
    fi
}

active [CLIENTS] proctype a_client() {
    byte t;
    do
    :: d_step { me.state == IDLE -> me.state = WANTS; begin_round(); settle }
    :: d_step { me.state != IDLE -> begin_round(); settle } /* once more, or renew; what was under way is lost */
    :: d_step { me.state != IDLE -> let_go(); settle } /* give up, release, or the limit has come */
    :: d_step { server[0].request[_pid] == REQUESTED -> serve(0); settle }
    :: d_step { server[1].request[_pid] == REQUESTED -> serve(1); settle }
    :: d_step { server[2].request[_pid] == REQUESTED -> serve(2); settle }
    :: d_step { server[0].request[_pid] == GRANTED -> count_vote(0); settle }
    :: d_step { server[1].request[_pid] == GRANTED -> count_vote(1); settle }
    :: d_step { server[2].request[_pid] == GRANTED -> count_vote(2); settle }
    od /* a message that is lost is one that is never taken */
}

active [SERVERS] proctype a_server() {
    byte s = _pid - CLIENTS, t;
    do
    :: d_step { server[s].owner == STALE -> forget(s); settle } /* the release arrives */
    :: d_step { lies > 0 && server[s].ttl > 0 -> forget(s); lies--; settle }
#if LIES == 0
    :: d_step { server[s].ttl > 0 -> forget(s); server[s].quarantine = QUARANTINE; settle }
#endif
    od
}

active proctype clock() {
    byte k, t;
    do
    :: d_step { !due(0) && !due(1) ->
        do
        :: k < SERVERS ->
            if
            :: server[k].ttl > 1 -> server[k].ttl--
            :: server[k].ttl == 1 -> forget(k)
            :: else
            fi;
            server[k].quarantine = (server[k].quarantine > 0 -> server[k].quarantine - 1 : 0);
            k++
        :: else -> break
        od;
        k = 0;
        do
        :: k < CLIENTS ->
            client[k].left = (client[k].left > 0 -> client[k].left - 1 : 0);
            client[k].age = (client[k].round && client[k].age < LEASE -> client[k].age + 1 : client[k].age);
            k++
        :: else -> break
        od;
        k = 0;
        settle }
    od
}
