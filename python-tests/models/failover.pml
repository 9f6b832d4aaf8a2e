/*
 * M3: a primary with two replicas, WAIT, promotion of any replica at any time, an old primary that lives on, isolated.
 *
 * Stands for: levels L1, L2 and L2q of the design; src/ promises no exclusion over a failover (README, "what it runs on").
 * Modelled: grants and renewals that replicas receive late; WAIT for COPIES of them; replies that are lost or late; any number
 * of promotions, one old primary at a time that still grants until it comes back as a replica; a script that refuses grants for a lease
 * after the replication id has changed. Ticks are relative: neither time nor anything else is bounded.
 * A replica holds what its primary held when it last received something: that is all that "late" can mean.
 * Left out: the time between a promotion and the first script that sees it (it makes the quarantine longer), pauses.
 *
 * Right:  COPIES=2                  all replicas have it before it counts
 *         COPIES=2 QUARANTINE FORGETS SKEW   and with a quarantine of one lease after a failover also when replicas forget, or their
 *                                    clocks differ
 *         COPIES=0 QUARANTINE CRASH_ONLY   nobody waits for replicas, the old primary is dead when another is promoted
 * Broken: COPIES=0                  efficiency only
 *         COPIES=1                  the other replica is promoted
 *         COPIES=2 FORGETS          a replica that has forgotten is promoted
 *         COPIES=2 SKEW             a replica whose clock is ahead is promoted
 *         COPIES=0 QUARANTINE       the old primary lives on and goes on granting
 *         COPIES=2 LEFT_COUNT       what a replica said before it left for another primary still counts
 *         COPIES=2 QUARANTINE NO_GUARD FORGETS   the claim is used up to the deadline
 */
#define SERVERS 3
#define CLIENTS 2
#define LEASE 3
#ifdef NO_GUARD
#define GUARD 0
#else
#define GUARD 1
#endif

#define IDLE 0
#define WANTS 1
#define HOLDS 2

#define NOBODY 2 /* an owner */
#define STALE 3  /* a grant that its client has given up */

#define NOTHING 0
#define REQUEST 1
#define DONE 2     /* by the server; replicas may not have it yet */
#define ANSWERED 3 /* enough of them had it, all at one time; the reply is on its way */

typedef Server {
    byte owner = NOBODY;
    byte ttl;
    byte quarantine;     /* of a primary; a replica gets a new one when it is promoted */
    byte follows;   /* its primary: itself when it is one */
    bool dead;
}

typedef Client {
    byte state;
    byte left;      /* ticks until the deadline */
    byte message;
    byte server;    /* that the message is for */
    byte copies;    /* bit of each replica that has received what was done and has not left since */
    byte age;       /* of the message's stamp; stops at LEASE */
}

Server server[SERVERS];
Client client[CLIENTS];
byte believers;

#define me client[_pid]
#define at server[me.server]
#define primary(s) (server[s].follows == s && !server[s].dead)
#define primaries (primary(0) + primary(1) + primary(2))
#define bits(set) ((set & 1) + ((set >> 1) & 1) + ((set >> 2) & 1))
#define due(c) (client[c].state == HOLDS && client[c].left <= GUARD)

inline forget(s) {
    server[s].owner = NOBODY; server[s].ttl = 0
}

inline clear_message() {
    me.message = NOTHING; me.server = 0; me.copies = 0; me.age = 0
}

inline request(s) {
    me.message = REQUEST; me.server = s; me.age = 0; me.copies = 0;
    if
    :: me.state == IDLE -> me.state = WANTS
    :: else
    fi
}

inline serve() {
    if
    :: at.owner == _pid -> at.ttl = LEASE; me.message = DONE
    :: at.owner == NOBODY && at.quarantine == 0 && me.state == WANTS -> at.owner = _pid; at.ttl = LEASE; me.message = DONE
    :: else -> clear_message()
    fi
}

inline handle_reply() {
    if
    :: LEASE - me.age > GUARD ->
        me.left = (LEASE - me.age > me.left -> LEASE - me.age : me.left);
        if
        :: me.state == WANTS -> me.state = HOLDS; believers++; assert(believers <= 1)
        :: else
        fi
    :: else
    fi;
    clear_message()
}

/* Its copies on replicas become stale as well: they go when the release is received, or with the lease. */
inline let_go() {
    if
    :: me.state == HOLDS -> believers--
    :: else
    fi;
    k = 0;
    do
    :: k < SERVERS ->
        server[k].owner = (server[k].owner == _pid -> STALE : server[k].owner);
        k++
    :: else -> break
    od;
    k = 0;
    clear_message();
    me.state = IDLE; me.left = 0
}

/* A replica receives all that its primary has done. */
inline receive(s) {
    server[s].owner = server[server[s].follows].owner;
    server[s].ttl = server[server[s].follows].ttl;
    do
    :: k < CLIENTS ->
        client[k].copies = (client[k].message == DONE && client[k].server == server[s].follows -> client[k].copies | (1 << s)
                            : client[k].copies);
        k++
    :: else -> break
    od;
    k = 0
}

/* A request to a primary that is none any more ends without an answer. */
inline cut_off(s) {
    do
    :: k < CLIENTS ->
        if
        :: client[k].message != NOTHING && client[k].server == s ->
            client[k].message = NOTHING; client[k].server = 0; client[k].copies = 0; client[k].age = 0
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

/* Its primary does not count it any more. */
inline leave(s) {
#ifdef LEFT_COUNT
    skip
#else
    do
    :: k < CLIENTS -> client[k].copies = client[k].copies & ~(1 << s); k++
    :: else -> break
    od;
    k = 0
#endif
}

inline promote(s) {
    leave(s);
#ifdef CRASH_ONLY
    o = 0;
    do
    :: o < SERVERS && primary(o) -> server[o].dead = 1; server[o].quarantine = 0; forget(o); cut_off(o); o++
    :: o < SERVERS && !primary(o) -> o++
    :: else -> break
    od;
    o = 0;
#endif
    server[s].follows = s;
#ifdef QUARANTINE
    server[s].quarantine = LEASE
#endif
}

inline follow(s, other) {
    leave(s);
    cut_off(s);
    server[s].follows = other;
    server[s].quarantine = 0;
    server[s].dead = 0;
    receive(s)
}

/* Clients differ in nothing but their state: they are kept in order, so that what is the same is visited once. */
#define weight(c) (client[c].state + 4 * client[c].message + 16 * client[c].server + 64 * client[c].left + 256 * client[c].age)

inline exchange(s) {
    server[s].owner = (server[s].owner < CLIENTS -> 1 - server[s].owner : server[s].owner)
}

inline in_order() {
    if
    :: weight(0) > weight(1) ->
        k = client[0].state; client[0].state = client[1].state; client[1].state = k;
        k = client[0].left; client[0].left = client[1].left; client[1].left = k;
        k = client[0].message; client[0].message = client[1].message; client[1].message = k;
        k = client[0].server; client[0].server = client[1].server; client[1].server = k;
        k = client[0].copies; client[0].copies = client[1].copies; client[1].copies = k;
        k = client[0].age; client[0].age = client[1].age; client[1].age = k;
        exchange(0); exchange(1); exchange(2);
        k = 0
    :: else
    fi
}

active [CLIENTS] proctype a_client() {
    byte k;
    do
    :: d_step { me.message == NOTHING && primary(0) -> request(0); in_order() }
    :: d_step { me.message == NOTHING && primary(1) -> request(1); in_order() }
    :: d_step { me.message == NOTHING && primary(2) -> request(2); in_order() }
    :: d_step { me.state != IDLE -> let_go(); in_order() } /* give up, release, or the limit has come */
    :: d_step { me.message == REQUEST && primary(me.server) -> serve(); in_order() }
    :: d_step { me.message == DONE && bits(me.copies) >= COPIES && primary(me.server) -> me.message = ANSWERED; me.copies = 0; in_order() }
    :: d_step { me.message == ANSWERED -> handle_reply(); in_order() }
    :: d_step { me.message != NOTHING -> clear_message(); in_order() } /* lost */
    od
}

active [SERVERS] proctype a_server() {
    byte s = _pid - CLIENTS, k, o;
    do
    :: d_step { server[s].owner == STALE && primary(s) -> forget(s) } /* the release arrives */
    :: d_step { server[s].follows != s && primary(server[s].follows) -> receive(s) }
    :: d_step { server[s].follows != s && primaries < 2 -> promote(s); in_order() }
    :: d_step { server[s].follows != 0 && primary(0) -> follow(s, 0); in_order() }
    :: d_step { server[s].follows != 1 && primary(1) -> follow(s, 1); in_order() }
    :: d_step { server[s].follows != 2 && primary(2) -> follow(s, 2); in_order() }
#ifdef FORGETS
    :: d_step { server[s].follows != s && server[s].ttl > 0 -> forget(s) }
#endif
#ifdef SKEW
    :: d_step { server[s].follows != s && server[s].ttl > 1 -> server[s].ttl-- }
#endif
    od
}

active proctype clock() {
    byte k;
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
            client[k].age = (client[k].message != NOTHING && client[k].age < LEASE -> client[k].age + 1 : client[k].age);
            k++
        :: else -> break
        od;
        k = 0;
        in_order() }
    od
}
