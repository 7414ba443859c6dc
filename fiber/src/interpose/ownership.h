/*
 * ownership.h: which fiber owns a lock, for locks whose owner libc identifies by its OS thread: recursive and
 * error-checking mutexes, and read-write locks while a fiber writes.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_OWNERSHIP_H
#define MILLRACE_FIBER_INTERPOSE_OWNERSHIP_H

#include <stdbool.h>

/* Record that the running fiber has acquired the lock, perhaps repeatedly, or releases it once. */
void mf_ownership_begin(const void *lock);
void mf_ownership_end(const void *lock);

/* True if the running fiber owns the lock. */
bool mf_ownership_is_by_caller(const void *lock);

/* True if another fiber of this carrier (a sibling) owns it. libc would confuse that fiber with the caller. */
bool mf_ownership_is_by_sibling(const void *lock);

#endif
