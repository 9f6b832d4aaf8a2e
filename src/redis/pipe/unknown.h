/*
 * unknown.h: scripts that the server of a pipe does not know, and whose text is on its way to it. A crowd of calls may
 * be refused for one script before its text arrives: only the first of them sends the text, the others go by the hash
 * again, behind it.
 *
 * Whoever may use the connection of the pipe may use this.
 */
#ifndef DLI_REDIS_PIPE_UNKNOWN_H
#define DLI_REDIS_PIPE_UNKNOWN_H

#include "call.h"

enum { DLI_UNKNOWN_MOST = 8, DLI_SCRIPT_HASH = 40 };

struct dli_unknown {
    char hash[DLI_UNKNOWN_MOST][DLI_SCRIPT_HASH]; /* begins with 0: free */
    int next;                                     /* where the next one goes */
};

/*
 * The server does not know the script of a call. Returns whether its text is on its way: then the call goes by its hash
 * once more. Otherwise the call is to send the text. Called before the call is encoded with it.
 */
int dli_unknown_coming(struct dli_unknown *unknown, struct dli_call *call);

/* A call is over. Its text, if it had one, has arrived, or is lost. */
void dli_unknown_over(struct dli_unknown *unknown, struct dli_call *call);

/* The connection is lost. */
void dli_unknown_forget(struct dli_unknown *unknown);

#endif
