/*
 * waiters.h: brings what waking a thread touches into the cache.
 *
 * With a thousand threads that wait, each of MVar, queue, thread and stack is far away when its turn comes, and each is
 * found by reading the one before. For one thread nothing can be done; for a batch the misses of all of them overlap.
 */
#ifndef MILLRACE_WAITERS_H
#define MILLRACE_WAITERS_H

#include "millrace.h"

#include <Rts.h>

/*
 * For every completion whose slot is one of the `size` from `first` on: what the thread needs that waits in that place of
 * `places`, an array of MVars. To be called by an `unsafe` foreign call, so that no collection moves them meanwhile.
 */
void mrh_fetch_waiters(StgClosure *const *places, uint32_t first, uint32_t size, const mr_completion *completions,
                       int count);

#endif
