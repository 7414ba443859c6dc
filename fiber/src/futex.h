/* futex.h: lets an OS thread sleep on a word of memory (futex(2)). */
#ifndef MILLRACE_FIBER_FUTEX_H
#define MILLRACE_FIBER_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while *word == value, until the deadline at the latest. May return early. Keeps errno. */
void mf_futex_wait(atomic_uint *word, unsigned value, uint64_t deadline_ns);

/* Wakes up to `count` sleepers. The word's memory may have been reused already. Then unrelated sleepers wake early,
 * which every user of a futex must expect. */
void mf_futex_wake(atomic_uint *word, int count);

#endif
