/*
 * waking.h: tells Haskell threads, from the carriers, that their calls want them.
 *
 * One thread of Haskell's for each capability, the waker, is woken by the run-time system, once for all calls that have
 * come up meanwhile, and wakes their threads. Knows of a call no more than who waits for it.
 */
#ifndef MILLRACE_FOREIGN_WAKING_H
#define MILLRACE_FOREIGN_WAKING_H

#include <HsFFI.h>

enum {
    MRF_CAPABILITIES_MAX = 256, /* GHC has no more (MAX_N_CAPABILITIES) */
    MRF_CACHE_LINE_BYTES = 64,  /* what each capability has of its own shares none */
};

/* A part of each call. It is the list's from mrf_wake until mrf_wanted_take. */
typedef struct mrf_wanted {
    struct mrf_wanted *next;
    HsStablePtr waiting; /* of type MVar (), for the waker to fill; stays the call's */
    int capability;
} mrf_wanted;

/* On a fiber: has the thread woken that waits. May let other fibers run before. */
void mrf_wake(mrf_wanted *wanted);

/* True once for each capability: its waker is to be started. */
int mrf_waker_is_missing(int capability);

/* For the waker: who has come up, first things first; or NULL, and the bell (from newStablePtrPrimMVar) rings when somebody
 * has. A bell that was not needed may be given again. */
mrf_wanted *mrf_wanted_take(int capability, HsStablePtr bell);

/* Takes one off that list, which then may be freed, and returns who waits. */
HsStablePtr mrf_wanted_next(mrf_wanted **list);

/* Nobody is woken any more: the run-time system is going to end. */
void mrf_close(void);

#endif
