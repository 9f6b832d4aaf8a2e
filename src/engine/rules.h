/*
 * rules.h: what a mutex machine goes by. Constant while the machine lives. See mutex.h.
 */
#ifndef DLI_ENGINE_RULES_H
#define DLI_ENGINE_RULES_H

#include <stdint.h>

/* Turns in memory: of claims of the machine itself; of other machines of the name; of those that the server names as next. */
enum { DLI_PASS_NONE, DLI_PASS_ANY, DLI_PASS_NAMED };

struct dli_mutex_rules {
    int64_t *numbers; /* the client's last grant number, counted up atomically */
    int64_t *highest; /* atomic: the highest token of all machines of the name; NULL: the machine is the only one */
    int64_t drift_ppm;
    int64_t safety;         /* a waiter probes this often, also without a message */
    int64_t handover_turns; /* in-memory hand-overs in one go */
    int64_t handover_time;  /* how long they may take */
    int64_t attempt;        /* longest attempt on the server */
    int64_t keep_ms;        /* how long an idle token counter lives */
    int64_t delay;          /* the server keeps a lease that was not released this much longer */
    int64_t permits;        /* of one acquisition; 0: not a semaphore */
    int64_t lives;          /* holds without a lease: the holder is renewed within this time; 0: holds have leases */
    int pollers;            /* of other libraries, which nobody can see: so many more get turns */
    int separate;           /* one number per exchange */
    int no_line;            /* waiters do not stand in line on the server */
    int kept;               /* a lease that is over frees nothing on the server: drop goes on until it is answered */
    int called;             /* they do, and are told there when to ask again; nothing is granted by a message */
    int doubtful;           /* a message of a grant only causes a probe: its answer counts */
    int momentary;          /* a grant ends the wait of all claims; nothing is held */
    int unheard;            /* momentary: nobody tells the store when the last claim gives up */
    int passes;             /* DLI_PASS_* */
};

#endif
