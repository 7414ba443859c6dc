/*
 * waking.h: wakes Haskell threads from the carriers when their calls end or request a callback.
 *
 * Each capability has one Haskell thread, the waker. The run-time system wakes it once for all calls that ended
 * meanwhile, and it wakes their threads. It needs to know only which thread waits for a call.
 */
#ifndef MILLRACE_FOREIGN_WAKING_H
#define MILLRACE_FOREIGN_WAKING_H

#include <HsFFI.h>

enum {
    MRF_CAPABILITIES_MAX = 256, /* GHC has no more (MAX_N_CAPABILITIES) */
    MRF_CACHE_LINE_BYTES = 64,  /* data of different capabilities share no cache line */
};

/* A part of each call. It belongs to the list from mrf_wake until mrf_wanted_take. */
typedef struct mrf_wanted {
    struct mrf_wanted *next;
    HsStablePtr waiting; /* of type MVar (), for the waker to fill; the call frees it */
    int capability;
} mrf_wanted;

/* Called on a fiber: wakes the thread that waits for the call. May let other fibers run first. */
void mrf_wake(mrf_wanted *wanted);

/* Returns true once for each capability: then start its waker. */
int mrf_waker_is_missing(int capability);

/* For the waker: returns the calls to wake, oldest first. Or returns NULL, and fills the MVar (of
 * newStablePtrPrimMVar) at the next call. An MVar that was not needed can be passed again. */
mrf_wanted *mrf_wanted_take(int capability, HsStablePtr bell);

/* Removes the first call from that list and returns the waiting thread's MVar. The call may then be freed. */
HsStablePtr mrf_wanted_next(mrf_wanted **list);

/* Stops all wake-ups, because the run-time system ends. */
void mrf_close(void);

#endif
