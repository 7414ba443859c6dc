/* acquire.c: tries to acquire a lock, waits, and tries again. */
#include "acquire.h"
#include "blocking.h"
#include "timespec.h"
#include "waiters.h"

#include <limits.h>

enum { PAUSE_FIRST_MS = 1, PAUSE_LAST_MS = MF_WAITER_PAUSE_MS };

#define NS_PER_MS UINT64_C(1000000)

bool mf_wake_one(const void *address)
{
    return mf_waiters_wake(address, 1, MF_ANY_BITS) > 0;
}

bool mf_wake_all(const void *address)
{
    return mf_waiters_wake(address, UINT_MAX, MF_ANY_BITS) > 0;
}

typedef struct acquisition {
    void *lock;
    mf_try try_lock;
    uint64_t deadline_ns;
    mf_interruptibility interruptibility;
    int interruption; /* the error of an interruption, or 0 */
} acquisition;

/* Parks until the lock may be free. It enters the table first and then tries once more, so that it misses no
 * wake-up. */
static int wait_and_try(acquisition *a, unsigned pause_ms)
{
    mf_waiter waiter;
    mf_waiter_enter(&waiter, a->lock, MF_ANY_BITS);
    int error = a->try_lock(a->lock);
    if (!mf_is_taken(error))
        mf_wait_claim_own(&waiter.wait, 0);
    uint64_t until_ns = mf_earlier(a->deadline_ns, mr_clock_now_ns() + pause_ms * NS_PER_MS);
    int outcome = mf_wait_park(&waiter.wait, until_ns, a->interruptibility);
    mf_waiter_leave(&waiter);
    if (a->interruptibility == MF_INTERRUPTIBLE && outcome < 0 && outcome != MF_DEADLINE_PASSED)
        a->interruption = -outcome;
    return error;
}

int mf_acquire_taken(void *lock, mf_try try_lock, uint64_t deadline_ns, mf_interruptibility interruptibility)
{
    acquisition a = {
        .lock = lock, .try_lock = try_lock, .deadline_ns = deadline_ns, .interruptibility = interruptibility};
    int error = EBUSY;
    for (unsigned pause_ms = PAUSE_FIRST_MS; mf_is_taken(error); pause_ms *= pause_ms < PAUSE_LAST_MS ? 2 : 1) {
        if (mf_has_passed(deadline_ns))
            return ETIMEDOUT;
        error = wait_and_try(&a, pause_ms);
        if (mf_is_taken(error) && a.interruption)
            return a.interruption;
        if (mf_is_taken(error))
            error = try_lock(lock);
    }
    return error;
}

int mf_note_tried(int error)
{
    if (mf_is_taken(error))
        mf_consume_budget();
    return error;
}

bool mf_is_lock_clock(clockid_t clock)
{
    return clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME;
}

bool mf_is_lock_deadline(clockid_t clock, const struct timespec *until)
{
    return until && mf_is_valid_fraction(until->tv_nsec) && mf_is_lock_clock(clock);
}
