/*
 * waiters.h: brings what waking a thread touches into the cache.
 *
 * With a thousand threads that wait, each of MVar, queue, thread and stack is far away when its turn comes, and each is
 * found by reading the one before. For one thread nothing can be done; for a batch the misses of all of them overlap.
 */
#ifndef MILLRACE_WAITERS_H
#define MILLRACE_WAITERS_H

#include <Rts.h>

/*
 * What the threads need that wait in so many `places`, which are MVars. To be called by an `unsafe` foreign call, so that no
 * collection moves them meanwhile.
 */
void mrh_fetch_waiters(StgClosure *const *places, int count);

#endif
