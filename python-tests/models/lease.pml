/*
 * M1: one server, leases, clients with a deadline of their own, pauses, and a resource that checks the fencing token.
 *
 * Stands for: src/engine/lease.c (the limit: stamp before the send, less a guard), src/engine/renewal.c (a late answer does not
 * revive), src/redis/scripts/mutex/acquire.lua, try.lua, renew.lua, giveup.lua (compare the owner; the same id twice is the same grant).
 * Modelled: requests and replies that are lost or take any time, attempts sent again, renewals, undone attempts, ids per
 * grant, expiry, crashes of clients (a client may do nothing for ever). Time is whole ticks, all of it relative: neither
 * time nor the number of grants is bounded, but for tokens with PAUSE.
 * Left out: clock rates (the drift is part of the deadline's formula), restarts of the server, waiting in line.
 *
 * Right:  (nothing)   never two holders
 *         PAUSE       holders may be paused: no write to the fenced resource comes behind a later grant's, and nobody who
 *                     was not paused is refused
 * Broken: REPLY_STAMP the deadline counts from the reply   NO_GUARD      the claim is used up to the deadline
 *         RELEASE_ANY a release deletes whoever's lock     TRUST         no deadline: held until the server says no
 *         PAUSE BELIEF     pauses, and never two holders is demanded
 *         PAUSE UNFENCED   pauses, the resource takes every write
 *         PAUSE TOKEN_LOST pauses, the counter goes with the lock
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifdef NO_GUARD
#define GUARD 0
#else
#define GUARD 1
#endif
#define LEASE 3
#define GRANTS 4 /* with PAUSE */

#define IDLE 0
#define WANTS 1
#define HOLDS 2

#define NOTHING 0
#define REQUEST 1
#define GRANTED 2
#define REFUSED 3

typedef Client {
    byte state;
    byte id;        /* of its grant; those of its former ones may still be on their way */
    byte left;      /* ticks until the deadline */
    byte message;   /* what is on its way, to or from the server */
    byte message_id;
    bool renewal;
    byte age;       /* of the message's stamp; stops at LEASE, which is too old for anything */
    byte release;   /* id of a release on its way, 0: none */
    bool paused;
    bool was_paused;
    byte token;
    byte grant;     /* which one of all grants: the model's knowledge, not the client's */
    byte message_token;
    byte message_grant;
}

Client client[CLIENTS];
byte ttl;       /* of the key; 0: there is none */
byte owner;
byte owner_id;
byte key_token;
byte key_grant;
byte fence;
byte grants;
byte seen;      /* by the resource: highest token */
byte seen_grant;
byte believers;

#define me client[_pid]
#define owned(who, number) (ttl > 0 && owner == who && owner_id == number)
#ifdef RELEASE_ANY
#define RELEASES(number) (ttl > 0)
#else
#define RELEASES(number) owned(_pid, number)
#endif
#define in_use(number) (me.message != NOTHING && me.message_id == number || me.release == number || owned(_pid, number))

inline forget_key() {
    ttl = 0; owner = 0; owner_id = 0; key_token = 0; key_grant = 0;
#ifdef TOKEN_LOST
    fence = 0;
#endif
}

/* Carry out the request and make it the reply. */
inline serve() {
    if
    :: owned(_pid, me.message_id) -> ttl = LEASE; me.message = GRANTED
#ifdef PAUSE
    :: ttl == 0 && !me.renewal && grants < GRANTS ->
        fence++; grants++;
        key_token = fence; key_grant = grants;
#else
    :: ttl == 0 && !me.renewal ->
#endif
        ttl = LEASE; owner = _pid; owner_id = me.message_id; me.message = GRANTED
    :: else -> me.message = REFUSED
    fi;
    if
    :: me.message == GRANTED -> me.message_token = key_token; me.message_grant = key_grant
    :: else
    fi
}

inline clear_message() {
    me.message = NOTHING; me.message_id = 0; me.renewal = 0; me.age = 0; me.message_token = 0; me.message_grant = 0
}

/* The claim is over; a release by id is sent; with PAUSE it arrives at once or not at all. */
inline let_go() {
    if
    :: me.state == HOLDS -> believers--
    :: else
    fi;
    if
#ifdef PAUSE
    :: owned(_pid, me.id) -> forget_key()
    :: skip /* lost */
#else
    :: me.release == 0 -> me.release = me.id
#endif
    :: else
    fi;
    me.state = IDLE; me.id = 0; me.left = 0; me.paused = 0; me.was_paused = 0; me.token = 0; me.grant = 0
}

inline receive() {
    if
    :: me.state == IDLE || me.message_id != me.id
    :: else ->
        if
        :: me.message == REFUSED && me.state == HOLDS -> let_go() /* taken away on the server */
        :: me.message == REFUSED && me.state == WANTS
#if defined(REPLY_STAMP) || defined(TRUST)
        :: me.message == GRANTED -> me.left = LEASE;
#else
        :: me.message == GRANTED && LEASE - me.age > GUARD ->
            me.left = (LEASE - me.age > me.left -> LEASE - me.age : me.left);
#endif
            if
            :: me.state == WANTS ->
                me.state = HOLDS; believers++;
                me.token = me.message_token; me.grant = me.message_grant
            :: else
            fi
        :: else -> /* granted, too late to be of use */
            if
            :: me.state == WANTS -> let_go()
            :: else
            fi
        fi
    fi;
    clear_message()
}

inline write() {
    if
#ifndef UNFENCED
    :: me.token < seen -> assert(me.was_paused)
#endif
    :: else ->
        assert(me.grant >= seen_grant);
        seen = me.token; seen_grant = me.grant
    fi
}

#ifdef TRUST
#define due(k) 0
#else
#define due(k) (client[k].state == HOLDS && client[k].left <= GUARD)
#endif
#define must_act(k) (due(k) && !client[k].paused)

inline tick() {
    k = 0;
    do
    :: k < CLIENTS ->
        client[k].left = (client[k].left > 0 -> client[k].left - 1 : 0);
        client[k].age = (client[k].message != NOTHING && client[k].age < LEASE -> client[k].age + 1 : client[k].age);
        k++
    :: else -> break
    od;
    k = 0;
    if
    :: ttl > 1 -> ttl--
    :: ttl == 1 -> forget_key()
    :: else
    fi
}

inline check() {
#if !defined(PAUSE) || defined(BELIEF)
    assert(believers <= 1)
#else
    skip
#endif
}

active [CLIENTS] proctype a_client() {
    do
    :: d_step { me.state == IDLE && me.message == NOTHING -> /* a request, under a new id */
        me.id = (!in_use(1) -> 1 : (!in_use(2) -> 2 : 3));
        me.state = WANTS; me.message = REQUEST; me.message_id = me.id }
    :: d_step { me.state == WANTS && me.message == NOTHING -> /* again, under the same */
        me.message = REQUEST; me.message_id = me.id }
    :: d_step { me.state == HOLDS && !me.paused && me.message == NOTHING -> /* renew */
        me.message = REQUEST; me.message_id = me.id; me.renewal = 1 }
    :: d_step { me.state != IDLE && !me.paused -> let_go() } /* give up, release, or the limit has come */
    :: d_step { me.message == REQUEST -> serve() }
    :: d_step { me.message != NOTHING -> clear_message() } /* lost */
    :: d_step { me.message > REQUEST && !me.paused -> receive(); check() }
    :: d_step { me.release != 0 -> /* arrives */
        if
        :: RELEASES(me.release) -> forget_key()
        :: else
        fi;
        me.release = 0 }
    :: d_step { me.release != 0 -> me.release = 0 } /* lost */
#ifdef PAUSE
    :: d_step { me.state == HOLDS && !me.paused && !due(_pid) -> write() }
    :: d_step { me.state == HOLDS && !me.paused -> me.paused = 1; me.was_paused = 1 }
    :: d_step { me.paused -> me.paused = 0; write(); if :: due(_pid) -> let_go() :: else fi }
#endif
    od
}

active proctype clock() {
    byte k;
    do
    :: d_step { !must_act(0) && !must_act(1) && !must_act(CLIENTS - 1) -> tick() }
    od
}
