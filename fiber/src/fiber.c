/* fiber.c: the life of a fiber: spawn, yield, sleep, end, join. */
#include "carrier.h"
#include "check.h"
#include "context.h"
#include "mask.h"
#include "runtime.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

void mf_fiber_unreference(mr_fiber *fiber)
{
    unsigned before = atomic_fetch_sub(&fiber->references, 1);
    MR_CHECK(before > 0); /* joined or detached twice */
    if (before == 1)
        free(fiber);
}

/* ------------------------------------------------------------------------------------------------------- begin --- */

/* If that fails, the runtime no longer counts the fiber. */
static mr_fiber *create(const mr_fiber_options *options, mf_runtime *runtime, int *error)
{
    mr_fiber *fiber = calloc(1, sizeof *fiber);
    size_t wanted = options && options->stack_size_bytes ? options->stack_size_bytes : runtime->stack_size_bytes;
    *error = fiber ? mf_stack_alloc(&fiber->stack, wanted) : -ENOMEM;
    if (*error) {
        free(fiber);
        mf_runtime_uncount(runtime);
        return NULL;
    }
    fiber->last_receive.descriptor = -1;
    const char *name = options && options->name ? options->name : "fiber";
    memcpy(fiber->name, name, strnlen(name, sizeof fiber->name - 1)); /* calloc has set the rest to zeros */
    fiber->context = mf_context_make(fiber->stack.bottom + fiber->stack.size_bytes, mf_fiber_main, fiber);
    mf_sanitizer_create(&fiber->sanitizer, fiber->stack.bottom, fiber->stack.size_bytes);
    return fiber;
}

int mr_fiber_spawn(mr_fiber **handle, const mr_fiber_options *options, void *(*run)(void *), void *argument)
{
    int saved_errno = errno;
    mf_runtime *runtime;
    int error = mf_runtime_count(&runtime);
    mr_fiber *fiber = error ? NULL : create(options, runtime, &error);
    if (fiber) {
        fiber->run = run;
        fiber->argument = argument;
        atomic_init(&fiber->references, handle ? 2 : 1);
        fiber->carrier = mf_runtime_choose_carrier(runtime, options ? options->preferred_carrier : 0);
        fiber->carrier_index = fiber->carrier->index;
        if (handle)
            *handle = fiber;
        mf_make_ready(fiber);
    }
    errno = saved_errno;
    return error;
}

/* --------------------------------------------------------------------------------------------------------- end --- */

void mf_fiber_main(void *argument)
{
    mr_fiber *fiber = argument;
    mf_sanitizer_arrive(&fiber->sanitizer, &fiber->carrier->sanitizer);
    errno = 0;
    fiber->result = fiber->run(fiber->argument);
    if (!mf_this_carrier)
        exit(EXIT_SUCCESS); /* in the child of a fork on this fiber: exit, as the last thread of a process does */
    fiber->carrier->ended = fiber;
    mf_suspend();
}

void mf_fiber_finish(mr_fiber *fiber)
{
    mf_node *joiner;
    mf_sanitizer_destroy(&fiber->sanitizer);
    mf_stack_free(&fiber->stack);
    mf_lock_acquire(&fiber->lock);
    fiber->has_ended = true;
    while ((joiner = mf_queue_claim(&fiber->joiners)))
        mf_wait_wake(joiner->wait);
    mf_lock_release(&fiber->lock);
    atomic_fetch_sub_explicit(&fiber->carrier->load, 1, memory_order_relaxed);
    mf_runtime_uncount(fiber->carrier->runtime);
    mf_fiber_unreference(fiber);
}

int mr_fiber_join(mr_fiber *fiber, void **result)
{
    if (fiber == mf_current)
        return -EDEADLK;
    mf_wait wait;
    mf_wait_init(&wait);
    mf_node node = {.wait = &wait};
    mf_lock_acquire(&fiber->lock);
    bool must_wait = !fiber->has_ended;
    if (must_wait)
        mf_queue_push(&fiber->joiners, &node);
    mf_lock_release(&fiber->lock);
    if (must_wait) {
        int outcome = mf_wait_park(&wait, MR_NO_DEADLINE, MF_INTERRUPTIBLE);
        mf_lock_acquire(&fiber->lock);
        mf_queue_remove(&fiber->joiners, &node);
        mf_lock_release(&fiber->lock);
        if (outcome < 0)
            return outcome;
    }
    if (result)
        *result = fiber->result;
    mf_fiber_unreference(fiber);
    return 0;
}

void mr_fiber_detach(mr_fiber *fiber)
{
    mf_fiber_unreference(fiber);
}

/* -------------------------------------------------------------------------------------------------- in between --- */

mr_fiber *mr_fiber_self(void)
{
    return mf_current;
}

const char *mr_fiber_name(const mr_fiber *fiber)
{
    return fiber->name;
}

unsigned mr_fiber_carrier(const mr_fiber *fiber)
{
    return fiber->carrier_index;
}

void *mr_fiber_argument(const mr_fiber *fiber, void *(*run)(void *))
{
    return fiber->run == run ? fiber->argument : NULL;
}

mr_fiber *mr_fiber_enter_thread(void)
{
    mr_fiber *fiber = mf_enter_core();
    if (fiber && fiber->mask.is_own)
        mf_mask_suspend(fiber, NULL);
    return fiber;
}

/* In the child of a fork the fiber remains a thread, because no carrier runs it. */
void mr_fiber_leave_thread(mr_fiber *fiber)
{
    if (!fiber || !mf_this_carrier)
        return;
    if (fiber->mask.is_own)
        mf_mask_resume(fiber, NULL);
    mf_leave_core(fiber);
}

void mr_fiber_yield(void)
{
    if (!mf_current) {
        sched_yield();
        return;
    }
    mf_make_ready(mf_current);
    mf_suspend();
}

int mr_fiber_sleep_until(uint64_t deadline_ns)
{
    mf_wait wait;
    mf_wait_init(&wait);
    int outcome = mf_wait_park(&wait, deadline_ns, MF_INTERRUPTIBLE);
    return outcome == MF_DEADLINE_PASSED ? 0 : outcome;
}

int mr_fiber_sleep(uint64_t duration_ns)
{
    uint64_t now_ns = mr_clock_now_ns();
    return mr_fiber_sleep_until(duration_ns < UINT64_MAX - now_ns ? now_ns + duration_ns : UINT64_MAX);
}
