/* runtime.c: starts and stops the carriers, counts the fibers, and chooses a carrier for each new fiber. */
#include "runtime.h"
#include "futex.h"
#include "mask.h"
#include "offload.h"
#include "random.h"
#include "report/report.h"
#include "interpose/fork.h"
#include "interpose/libc.h"
#include "watch.h"
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    STACK_SIZE_BYTES = 256 * 1024,
    STACKS_KEPT = 1024,
    PREFERRED_LOAD = 8, /* a preferred carrier with at most this many fibers is always chosen */
};

static mf_lock start_lock; /* held while carriers are started or stopped */
static _Atomic(mf_runtime *) current;
/*
 * Held while a thread that is not a carrier counts a new fiber, and while mr_carriers_stop clears `current` at a count
 * of 0. So no fiber is counted in a runtime that is about to be destroyed.
 */
static mf_lock count_lock;
/* In the child of fork(): the parent's runtime. Never freed. This pointer keeps leak checkers from reporting it. */
static mf_runtime *volatile parent_runtime;

/* ------------------------------------------------------------------------------------------------------ options --- */

static unsigned usable_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    return (unsigned)CPU_COUNT(&set);
}

static mr_carriers_options complete(const mr_carriers_options *given)
{
    mr_carriers_options options = given ? *given : (mr_carriers_options){0};
    if (!options.carriers)
        options.carriers = usable_processors() < MR_CARRIERS_MAX ? usable_processors() : MR_CARRIERS_MAX;
    if (!options.stack_size_bytes)
        options.stack_size_bytes = STACK_SIZE_BYTES;
    if (!options.stacks_kept)
        options.stacks_kept = STACKS_KEPT;
    return options;
}

/* ----------------------------------------------------------------------------------------------- start and stop --- */

/* Occupies the numbers of standard descriptors that are closed. Otherwise a loop's descriptor could get such a number,
 * and the program would print into it. Returns the occupied numbers: bit n stands for descriptor n. */
static unsigned reserve_standard_descriptors(void)
{
    unsigned held = 0;
    int descriptor;
    while ((descriptor = eventfd(0, EFD_CLOEXEC)) >= 0 && descriptor <= STDERR_FILENO)
        held |= 1U << descriptor;
    if (descriptor >= 0)
        close(descriptor);
    return held;
}

static void release_standard_descriptors(unsigned held)
{
    for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++)
        if (held & 1U << descriptor)
            close(descriptor);
}

static int create_loops(const mr_carriers_options *options, mr_loop **loops, mr_group **group)
{
    unsigned held = reserve_standard_descriptors();
    int error = mr_group_create_with_owned_loops(options->backend, options->carriers, loops, group);
    release_standard_descriptors(held);
    return error;
}

static int create(const mr_carriers_options *options, mf_runtime **result)
{
    mf_runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime)
        return -ENOMEM;
    runtime->count = options->carriers;
    runtime->stack_size_bytes = options->stack_size_bytes;
    mf_stack_set_kept(options->stacks_kept);
    mf_report_configure(options);
    mr_loop *loops[MR_CARRIERS_MAX];
    int error = create_loops(options, loops, &runtime->group);
    if (error)
        goto fail_group;
    error = mf_carriers_create(&runtime->carriers, runtime->count, loops, runtime);
    if (error)
        goto fail_carriers;
    mf_watchdog_start(runtime->carriers, runtime->count);
    mf_report_uncovered();
    *result = runtime;
    return 0;

fail_carriers:
    mr_group_destroy(runtime->group);
fail_group:
    free(runtime);
    return error;
}

/*
 * In the child of fork() only the forking thread exists. The data of the carriers is not touched, because another
 * thread may have been changing it. If a fiber forked, it continues as a plain thread. The next spawn starts new
 * carriers.
 */
static void forget_after_fork(void)
{
    if (mf_this_carrier)
        mf_mask_set(mf_current ? mf_mask_of_fiber() : mf_carrier_programs_mask());
    mf_current = NULL;
    mf_this_carrier = NULL;
    parent_runtime = atomic_exchange(&current, NULL);
    atomic_store(&start_lock.state, 0);
    atomic_store(&count_lock.state, 0);
    mf_stack_forget_kept();
    mf_watch_start();
    mf_offload_forget_after_fork();
    mf_waiters_forget_after_fork();
    mf_ownership_forget_after_fork();
    mf_rwlock_forget_after_fork();
    mf_stream_forget_after_fork();
    mf_socket_forget_after_fork();
}

static atomic_bool watches_fork;

void mf_runtime_forget_after_fork(void)
{
    if (atomic_load(&watches_fork))
        forget_after_fork();
}

static int start(const mr_carriers_options *given)
{
    mr_carriers_options options = complete(given);
    if (options.carriers > MR_CARRIERS_MAX || !mf_stack_is_possible(options.stack_size_bytes))
        return -EINVAL;
    if (!atomic_load(&watches_fork)) {
        mf_libc_find_all();
        mf_sanitizer_prepare();
        mf_watch_start();
        int error = pthread_atfork(NULL, NULL, forget_after_fork);
        if (error)
            return -error;
        atomic_store(&watches_fork, true);
    }
    mf_offload_prepare();
    mf_runtime *runtime;
    int error = create(&options, &runtime);
    if (!error)
        atomic_store(&current, runtime);
    return error;
}

int mr_carriers_start(const mr_carriers_options *options)
{
    if (atomic_load(&current))
        return -EALREADY; /* checked before the lock, which mr_carriers_stop holds while fibers run */
    int saved_errno = errno;
    mf_lock_acquire(&start_lock);
    int error = atomic_load(&current) ? -EALREADY : start(options);
    mf_lock_release(&start_lock);
    errno = saved_errno;
    return error;
}

/* Counts a fiber and returns its runtime, or NULL if the carriers are not running. */
static mf_runtime *count_on_thread(void)
{
    mf_lock_acquire(&count_lock);
    mf_runtime *runtime = atomic_load(&current);
    if (runtime)
        atomic_fetch_add(&runtime->fibers, 1);
    mf_lock_release(&count_lock);
    return runtime;
}

/* Starts the carriers if necessary. They do not stop while a fiber is counted. */
int mf_runtime_count(mf_runtime **runtime)
{
    if (mf_this_carrier) {
        *runtime = mf_this_carrier->runtime;
        atomic_fetch_add(&(*runtime)->fibers, 1);
        return 0;
    }
    while (!(*runtime = count_on_thread())) {
        int error = mr_carriers_start(NULL);
        if (error && error != -EALREADY)
            return error;
    }
    return 0;
}

void mf_runtime_uncount(mf_runtime *runtime)
{
    unsigned before = atomic_fetch_sub(&runtime->fibers, 1);
    MR_CHECK(before > 0);
    if (before == 1)
        mf_futex_wake(&runtime->fibers, INT_MAX);
}

static void wait_for_fibers(mf_runtime *runtime)
{
    unsigned fibers;
    while ((fibers = atomic_load(&runtime->fibers)))
        mf_futex_wait(&runtime->fibers, fibers, MR_NO_DEADLINE);
}

/* Returns false if a fiber was spawned meanwhile. After true, no new fiber can find this runtime. */
static bool hide_if_idle(mf_runtime *runtime)
{
    mf_lock_acquire(&count_lock);
    bool is_idle = atomic_load(&runtime->fibers) == 0;
    if (is_idle)
        atomic_store(&current, NULL);
    mf_lock_release(&count_lock);
    return is_idle;
}

int mr_carriers_stop(void)
{
    if (mf_current)
        return -EDEADLK;
    mf_lock_acquire(&start_lock);
    mf_runtime *runtime = atomic_load(&current);
    if (runtime) {
        do
            wait_for_fibers(runtime);
        while (!hide_if_idle(runtime));
        mf_watchdog_stop();
        mf_carriers_destroy(runtime->carriers, runtime->count);
        mr_group_destroy(runtime->group);
        mf_offload_stop();
        mf_stack_drop_kept();
        free(runtime);
    }
    mf_lock_release(&start_lock);
    return 0;
}

unsigned mr_carriers_count(void)
{
    mf_runtime *runtime = atomic_load(&current);
    return runtime ? runtime->count : 0;
}

/* ----------------------------------------------------------------------------------------------- load balancing --- */

static unsigned load_of(const mf_carrier *carrier)
{
    return atomic_load_explicit(&carrier->load, memory_order_relaxed);
}

static mf_carrier *any_carrier(const mf_runtime *runtime)
{
    return &runtime->carriers[mf_random_below(runtime->count)];
}

/* A caller that prefers a carrier wants the data that it shares with its fibers to stay in one processor's cache. */
static mf_carrier *unless_overloaded(mf_carrier *preferred, const mf_runtime *runtime)
{
    mf_carrier *other = any_carrier(runtime);
    return load_of(preferred) > 2 * load_of(other) + PREFERRED_LOAD ? other : preferred;
}

static mf_carrier *less_loaded(const mf_runtime *runtime)
{
    mf_carrier *one = any_carrier(runtime), *other = any_carrier(runtime);
    return load_of(other) < load_of(one) ? other : one;
}

mf_carrier *mf_runtime_choose_carrier(mf_runtime *runtime, unsigned preferred)
{
    mf_carrier *chosen = preferred ? unless_overloaded(&runtime->carriers[(preferred - 1) % runtime->count], runtime)
                                   : less_loaded(runtime);
    atomic_fetch_add_explicit(&chosen->load, 1, memory_order_relaxed);
    return chosen;
}
