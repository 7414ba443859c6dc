/*
 * ownership.h: which fiber owns a lock, where libc only knows the OS thread: recursive and error-checking mutexes, and
 * locks for readers and writers while a fiber writes.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_OWNERSHIP_H
#define MILLRACE_FIBER_INTERPOSE_OWNERSHIP_H

#include <stdbool.h>

/* The running fiber has taken the lock, perhaps not for the first time, or releases it once. */
void mf_ownership_begin(const void *lock);
void mf_ownership_end(const void *lock);

/* Does the running fiber own the lock? */
bool mf_ownership_is_callers(const void *lock);

/* Does another fiber of this carrier own it? libc would take that fiber for the caller. */
bool mf_ownership_is_neighbours(const void *lock);

#endif
