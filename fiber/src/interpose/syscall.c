/*
 * syscall.c: system calls by number.
 *
 * A call that sends a signal to the caller's thread sends it to the fiber. One call parks: sleeping on a word of memory
 * (futex(2)). Locks that are not pthread's use it: those of GLib, Qt and Rust, and C++'s futures, atomic waits and
 * initialisation of static variables. A fiber sleeps in the table of waiters. A waker first wakes fibers in this table,
 * and then threads in the kernel.
 */
#include "../carrier.h"
#include "blocking.h"
#include "libc.h"
#include "signal_to_self.h"
#include "timespec.h"
#include "waiters.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

MF_ALWAYS_LINKED(syscall);

enum { ARGUMENTS = 6 };

typedef struct futex_call {
    void *word;
    int command; /* without its flags */
    int flags;
    long value;
    long limit; /* a timespec for calls that sleep, else a number */
    void *other;
    long last; /* the bit mask of the _BITSET calls */
} futex_call;

static futex_call futex_call_of(const long *arguments)
{
    int operation = (int)arguments[1];
    return (futex_call){.word = (void *)arguments[0],
                        .command = operation & FUTEX_CMD_MASK,
                        .flags = operation & ~FUTEX_CMD_MASK,
                        .value = arguments[2],
                        .limit = arguments[3],
                        .other = (void *)arguments[4],
                        .last = arguments[5]};
}

static long ask_kernel(const futex_call *c)
{
    return LIBC(syscall)(SYS_futex, c->word, c->command | c->flags, c->value, c->limit, c->other, c->last);
}

static unsigned bits_of(const futex_call *c)
{
    bool has_bits = c->command == FUTEX_WAIT_BITSET || c->command == FUTEX_WAKE_BITSET;
    return has_bits ? (unsigned)c->last : MF_ANY_BITS;
}

/* ---------------------------------------------------------------------------------------------------- sleeping --- */

/* True if the call parks. Invalid calls go to the kernel, which refuses them. */
static bool parks(const futex_call *c)
{
    const struct timespec *limit = (const struct timespec *)c->limit;
    bool is_wait = c->command == FUTEX_WAIT_BITSET || (c->command == FUTEX_WAIT && !(c->flags & FUTEX_CLOCK_REALTIME));
    return mf_current && is_wait && bits_of(c) && (!limit || mf_is_valid_time(limit));
}

static uint64_t deadline_of(const futex_call *c)
{
    const struct timespec *limit = (const struct timespec *)c->limit;
    if (!limit || c->command == FUTEX_WAIT)
        return mf_deadline_after(limit);
    return mf_deadline_on(c->flags & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, limit);
}

/* Returns 0 if the word has the value, otherwise the kernel's error. Moving no sleeper from the word to the same
 * word only compares it. */
static int compare_word(const futex_call *c)
{
    int flags = c->flags & FUTEX_PRIVATE_FLAG;
    long moved = LIBC(syscall)(SYS_futex, c->word, FUTEX_CMP_REQUEUE | flags, 0L, 0L, c->word, c->value);
    return moved < 0 ? errno : 0;
}

/* A caller without a time limit must not get ETIMEDOUT: callers that check take it for a defect. */
static int error_of(int outcome)
{
    if (outcome >= 0)
        return 0;
    return outcome == MF_DEADLINE_PASSED ? ETIMEDOUT : EINTR;
}

static long sleep_on_word(const futex_call *c)
{
    mf_waiter waiter;
    int before = errno;
    uint64_t deadline_ns = deadline_of(c);
    mf_waiter_enter(&waiter, c->word, bits_of(c));
    int error = compare_word(c);
    bool is_refused = error && mf_wait_claim_own(&waiter.wait, 0);
    int outcome = mf_waiter_park(&waiter, !(c->flags & FUTEX_PRIVATE_FLAG), deadline_ns);
    mf_waiter_leave(&waiter);
    if (is_refused)
        mf_consume_budget();
    else
        error = error_of(outcome);
    errno = error ? error : before;
    return error ? -1 : 0;
}

/* ------------------------------------------------------------------------------------------------------ waking --- */

/* Wakes fibers, then threads. The kernel, too, wakes one sleeper if the number is 0. */
static long wake_sleepers(const futex_call *c)
{
    int most = (int)c->value > 1 ? (int)c->value : 1, before = errno;
    int woken = (int)mf_waiters_wake(c->word, (unsigned)most, bits_of(c));
    if (woken == most)
        return woken;
    futex_call rest = *c;
    rest.value = most - woken;
    long more = ask_kernel(&rest);
    if (more < 0 && woken == 0)
        return more;
    errno = before;
    return more < 0 ? woken : woken + more;
}

/* Fibers are not moved to another word. They wake early and check again, which every sleeper on a word must do. */
static long wake_after(const futex_call *c)
{
    long result = ask_kernel(c);
    if (result >= 0) {
        mf_waiters_wake(c->word, UINT_MAX, MF_ANY_BITS);
        mf_waiters_wake(c->other, UINT_MAX, MF_ANY_BITS);
    }
    return result;
}

static long futex(const long *arguments)
{
    futex_call c = futex_call_of(arguments);
    switch (c.command) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
        return parks(&c) ? sleep_on_word(&c) : ask_kernel(&c);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
        return wake_sleepers(&c);
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
    case FUTEX_WAKE_OP:
        return wake_after(&c);
    default:
        return ask_kernel(&c);
    }
}

/* ---------------------------------------------------------------------------------------------------- by number --- */

/* No system call has more arguments. Passing on arguments that were not given does no harm, so the sanitizer need not
 * report it. */
__attribute__((no_sanitize_address)) long syscall(long number, ...)
{
    long a[ARGUMENTS];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < ARGUMENTS; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_futex)
        return futex(a);
    if (mf_signal_is_to_oneself(number, a))
        return mf_signal_send_by_number(number, a);
    return LIBC(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
