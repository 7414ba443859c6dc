/* futex.c: sleeping and waking by futex(2), which blocks the OS thread even on a fiber; and the slow paths of
 * lock.h. */
#include "futex.h"
#include "lock.h"
#include "interpose/libc.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_SECOND = 1000000000 };

void mf_futex_wait(atomic_uint *word, unsigned value, uint64_t deadline_ns)
{
    int error = errno;
    /* FUTEX_WAIT_BITSET takes a point in time on the monotonic clock, FUTEX_WAIT would take a duration. */
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(deadline_ns % NS_PER_SECOND)};
    const struct timespec *limit = deadline_ns ? &until : NULL;
    LIBC(syscall)(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, limit, NULL, FUTEX_BITSET_MATCH_ANY);
    errno = error;
}

void mf_futex_wake(atomic_uint *word, int count)
{
    int error = errno;
    LIBC(syscall)(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    errno = error;
}

void mf_lock_wait(mf_lock *lock)
{
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        mf_futex_wait(&lock->state, 2, 0);
}

void mf_lock_wake(mf_lock *lock)
{
    mf_futex_wake(&lock->state, 1);
}
