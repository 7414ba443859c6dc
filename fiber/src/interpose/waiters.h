/*
 * waiters.h: fibers that wait at an address of memory, as threads do in the kernel (futex(2)): for a lock of pthread's, or
 * for a word that a program's own lock sleeps on.
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
    unsigned bits; /* it is woken by those who wake one of them */
} mf_waiter;

/*
 * The running fiber waits at the address from now on. What it looks at afterwards, before it parks on `wait`, is at
 * least as new as what was written before any wake that did not find it.
 */
void mf_waiter_enter(mf_waiter *waiter, const void *address, unsigned bits);
void mf_waiter_leave(mf_waiter *waiter);

/*
 * Parks; 0 when woken. Another process does not find a fiber in the table: one that waits for other processes, too, wakes
 * now and then without a reason.
 */
enum { MF_WAITER_PAUSE_MS = 16 };
int mf_waiter_park(mf_waiter *waiter, bool is_for_processes, uint64_t deadline_ns);

/* Wakes up to `most` of those that wait at the address, in the order of coming; returns how many. What was written before
 * is seen by who comes too late to be woken. [any thread, handlers of signals too] */
unsigned mf_waiters_wake(const void *address, unsigned most, unsigned bits);

/* Addresses are spread over so many buckets. */
enum { MF_ADDRESS_BUCKETS = 256 };
size_t mf_address_bucket(const void *address);

#endif
