/*
 * waiters.h: brings what waking a thread touches into the cache.
 *
 * With a thousand waiting threads, MVar, queue, thread and stack are not in the cache, and the address of each is read from
 * the one before. For one thread this cannot be improved. For a batch of threads the cache misses overlap.
 */
#ifndef MILLRACE_WAITERS_H
#define MILLRACE_WAITERS_H

#include <Rts.h>

/*
 * Prefetches what the threads need that wait in `count` MVars. Call it by an `unsafe` foreign call, so that no garbage
 * collection moves the MVars meanwhile.
 */
void mrh_fetch_waiters(StgClosure *const *places, int count);

#endif
