/*
 * waiters.h: prefetches the memory that waking threads will touch.
 *
 * With a thousand waiting threads, the MVar, queue, thread and stack are not in the cache, and the address of each is
 * stored in the one before. For one thread this cannot be improved. For a batch of threads the cache misses can
 * overlap.
 */
#ifndef MILLRACE_WAITERS_H
#define MILLRACE_WAITERS_H

#include <Rts.h>

/*
 * Prefetches the memory of the threads that wait for `count` MVars. Call it by an `unsafe` foreign call, so that no
 * garbage collection moves the MVars meanwhile.
 */
void mrh_prefetch_waiters(StgClosure *const *variables, int count);

#endif
