/*
 * waiters.h: a table of fibers that wait at an address, as OS threads do by futex(2): the address of a pthread lock, or
 * of a word that a program's own lock uses.
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
 * Enters the running fiber as a waiter at the address. If a wake does not find it, the fiber sees everything that was
 * written before that wake when it reads memory after this call and before it parks on `wait`.
 */
void mf_waiter_enter(mf_waiter *waiter, const void *address, unsigned bits);
void mf_waiter_leave(mf_waiter *waiter);

/*
 * Parks; returns 0 when woken. Another process cannot wake a fiber in this table. So a fiber that also waits for other
 * processes wakes up spuriously from time to time, and must check its condition.
 */
enum { MF_WAITER_PAUSE_MS = 16 };
int mf_waiter_park(mf_waiter *waiter, bool is_for_processes, uint64_t deadline_ns);

/* Wakes up to `most` fibers that wait at the address, in the order of arrival, and returns their number. A fiber that
 * comes too late to be woken sees what was written before this call. [any thread, also signal handlers] */
unsigned mf_waiters_wake(const void *address, unsigned most, unsigned bits);

/* The number of buckets of tables that are indexed by an address. */
enum { MF_ADDRESS_BUCKETS = 256 };
size_t mf_address_bucket(const void *address);

#endif
