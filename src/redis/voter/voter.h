/*
 * voter.h: the requests of a quorum to one of its servers that no other store has. own of the request is what the verb
 * says.
 */
#ifndef DLI_REDIS_VOTER_VOTER_H
#define DLI_REDIS_VOTER_VOTER_H

#include "store/store.h"

enum {
    DLI_VERB_FLOOR = DLI_VERBS, /* dli_floor: write the last token that the quorum agreed on */
    DLI_VERB_JOIN,              /* dli_join: the server's run id, and the view of the quorum that it keeps */
    DLI_VOTER_VERBS
};

enum { DLI_VIEW_MAX = 512, DLI_MEMBERS_MAX = 15 * 108 };

struct dli_floor {
    char owner[DLI_OWNER_MAX];
    int64_t seen; /* the last token reserved with its vote */
    int64_t last; /* the last token, to be written */
    int64_t keep_ms;
    int stands; /* the result: 0 when owner lost the lock, or somebody has reserved tokens since */
};

struct dli_join {
    const char *view;  /* the servers of the quorum, as this client knows them */
    const char *space; /* the client's namespace, which has a view of its own; "": none */
    int64_t keep_ms;
    int others;                    /* how many other servers the quorum has; 0: the view names them */
    char members[DLI_MEMBERS_MAX]; /* others: those that are known, as join.lua wants them */
    char run_id[48];               /* results */
    int64_t up;                    /* seconds since the server's start */
    int64_t clock;                 /* the server's time, in microseconds since 1970 */
    int sharded;
    char stands[DLI_VIEW_MAX]; /* the view that the server keeps */
    char shown[DLI_VIEW_MAX];  /* the same for messages, without the password */
};

#endif
