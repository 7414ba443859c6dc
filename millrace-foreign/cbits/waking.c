/* waking.c: see waking.h. */
#include "waking.h"

#include "millrace_check.h"
#include "millrace_fiber.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* The calls whose threads must be woken, the newest first; or `nobody`, which means that the waker sleeps and must be
 * woken. */
typedef struct waking {
    _Alignas(MRF_CACHE_LINE_BYTES) _Atomic(mrf_wanted *) last;
    atomic_bool has_waker;
    HsStablePtr bell;
} waking;

static waking wakings[MRF_CAPABILITIES_MAX];
static mrf_wanted nobody;

static waking *waking_of(int capability)
{
    return &wakings[(unsigned)capability % MRF_CAPABILITIES_MAX];
}

/* -------------------------------------------------------------------------------------------- the run-time system ---
 * */

/* The run-time system frees its capabilities while fibers still run. So wake-ups in progress are counted, and the end
 * waits for them. */
static atomic_bool has_closed;
static atomic_uint rings_under_way;

void mrf_close(void)
{
    atomic_store(&has_closed, true);
    while (atomic_load(&rings_under_way))
        sched_yield();
}

/* In the child of a fork there are no wakers and no waiting threads. */
static void forget_after_fork(void)
{
    atomic_store(&rings_under_way, 0);
    memset(wakings, 0, sizeof wakings);
}

static void watch_fork(void)
{
    pthread_atfork(NULL, NULL, forget_after_fork);
}

/* Waking may start a thread, which inherits the carrier's blocked signals. The run-time system ends `interruptible`
 * calls on its threads by this signal, so it is unblocked: on the carrier, not on the fiber that runs now. */
static void unblock_the_run_time_systems_signal(void)
{
    static __thread bool is_unblocked;
    if (is_unblocked)
        return;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGVTALRM);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    is_unblocked = true;
}

/* The run-time system's locks belong to OS threads, so the fiber must not park meanwhile. */
static void ring(int capability, HsStablePtr bell)
{
    mr_fiber *fiber = mr_fiber_enter_thread();
    unblock_the_run_time_systems_signal();
    atomic_fetch_add(&rings_under_way, 1);
    if (!atomic_load(&has_closed))
        hs_try_putmvar(capability, bell);
    atomic_fetch_sub(&rings_under_way, 1);
    mr_fiber_leave_thread(fiber);
}

/* ------------------------------------------------------------------------------------------------------ the list ---
 * */

/* Returns true if the waker sleeps. The waiting thread may free the call at once. */
static bool push(waking *own, mrf_wanted *wanted)
{
    mrf_wanted *last = atomic_load_explicit(&own->last, memory_order_relaxed);
    do
        wanted->next = last == &nobody ? NULL : last;
    while (
        !atomic_compare_exchange_weak_explicit(&own->last, &last, wanted, memory_order_acq_rel, memory_order_relaxed));
    return last == &nobody;
}

void mrf_wake(mrf_wanted *wanted)
{
    int capability = wanted->capability;
    waking *own = waking_of(capability);
    if (!push(own, wanted))
        return;
    /* Yield, so that other fibers that are ready add themselves first and share this wake-up. Otherwise, on a
     * processor that both share, each call would switch to a Haskell thread. */
    mr_fiber_yield();
    ring(capability, own->bell);
}

int mrf_waker_is_missing(int capability)
{
    static pthread_once_t watches_fork = PTHREAD_ONCE_INIT;
    waking *own = waking_of(capability);
    if (atomic_load_explicit(&own->has_waker, memory_order_relaxed))
        return 0;
    pthread_once(&watches_fork, watch_fork);
    return !atomic_exchange(&own->has_waker, true);
}

static mrf_wanted *reverse(mrf_wanted *last)
{
    mrf_wanted *first = NULL;
    for (mrf_wanted *next; last; last = next) {
        next = last->next;
        last->next = first;
        first = last;
    }
    return first;
}

mrf_wanted *mrf_wanted_take(int capability, HsStablePtr bell)
{
    waking *own = waking_of(capability);
    mrf_wanted *none = NULL;
    own->bell = bell;
    if (atomic_compare_exchange_strong(&own->last, &none, &nobody))
        return NULL;
    return reverse(atomic_exchange(&own->last, NULL));
}

HsStablePtr mrf_wanted_next(mrf_wanted **list)
{
    mrf_wanted *first = *list;
    MR_CHECK(first);
    *list = first->next;
    return first->waiting;
}
