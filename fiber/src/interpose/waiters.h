/*
 * waiters.h: fibers that wait at an address of memory, as OS threads do by futex(2). The address is that of a lock of
 * pthread's, or of a word on which a program's own lock waits.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_WAITERS_H
#define MILLRACE_FIBER_INTERPOSE_WAITERS_H

#include "../wait.h"

#include <stdbool.h>
#include <stddef.h>

#define MF_ANY_BITS (~0u)

typedef struct mf_waiter {
    mf_node node; /* first */
    mf_wait wait;
    unsigned bits; /* a wake that has one of these bits wakes this waiter */
} mf_waiter;

/*
 * The running fiber waits at the address from now on. If a wake did not find it, then the fiber, when it reads memory
 * after this call and before it parks on `wait`, sees everything that was written before that wake.
 */
void mf_waiter_enter(mf_waiter *waiter, const void *address, unsigned bits);
void mf_waiter_leave(mf_waiter *waiter);

/*
 * Parks; returns 0 when woken. Another process cannot wake a fiber in this table. A fiber that also waits for other
 * processes therefore wakes up now and then without a reason, and must check its condition.
 */
enum { MF_WAITER_PAUSE_MS = 16 };
int mf_waiter_park(mf_waiter *waiter, bool is_for_processes, uint64_t deadline_ns);

/* Wakes up to `most` fibers that wait at the address, in the order of arrival, and returns their number. A fiber that
 * comes too late to be woken sees what was written before this call. [any thread, also signal handlers] */
unsigned mf_waiters_wake(const void *address, unsigned most, unsigned bits);

/* The number of buckets over which addresses are spread. */
enum { MF_ADDRESS_BUCKETS = 256 };
size_t mf_address_bucket(const void *address);

#endif
