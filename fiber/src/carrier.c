/*
 * carrier.c: the loop that every carrier runs: it runs ready fibers, polls the core, and then sleeps. Must not know:
 * interposed functions, channels.
 */
#include "carrier.h"
#include "check.h"
#include "context.h"
#include "mask.h"
#include "overflow.h"
#include "report/report.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FIBERS_PER_POLL = 64, /* bounds how long the core's completions may wait */
    COMPLETIONS_PER_POLL = 128,
    FIBERS_OUT_OF_CACHE = 16, /* prefetching for fewer fibers gains little */
    STACK_IN_USE = 512,       /* bytes of a parked fiber's stack that its continuation reads */
};

__thread mr_fiber *mf_current;
__thread mf_carrier *mf_this_carrier;

/* ---------------------------------------------------------------------------------------------------- switching --- */

/* Tells the watchdog about the running fiber. Only the carrier writes these fields. */
static void note_turn(mf_carrier *carrier, mr_fiber *fiber)
{
    uint64_t turns = atomic_load_explicit(&carrier->turns, memory_order_relaxed);
    atomic_store_explicit(&carrier->running, fiber, memory_order_relaxed);
    atomic_store_explicit(&carrier->turns, turns + 1, memory_order_release);
}

static void run(mf_carrier *carrier, mr_fiber *fiber)
{
    note_turn(carrier, fiber);
    mf_current = fiber;
    mf_sanitizer_leave(&carrier->sanitizer, &fiber->sanitizer, false);
    mf_switch(&carrier->scheduler, fiber->context);
    mf_sanitizer_arrive(&carrier->sanitizer, &fiber->sanitizer);
    mf_current = NULL;
    mf_stack_note_use(&fiber->stack, fiber->context);
    note_turn(carrier, NULL);
    if (carrier->ended) {
        MR_CHECK(carrier->ended == fiber);
        carrier->ended = NULL;
        mf_watchdog_wait_for_reader(carrier);
        mf_fiber_finish(fiber);
    }
}

static void switch_to_scheduler(mr_fiber *fiber)
{
    mf_carrier *carrier = fiber->carrier;
    mf_sanitizer_leave(&fiber->sanitizer, &carrier->sanitizer, carrier->ended == fiber);
    mf_switch(&fiber->context, carrier->scheduler);
    mf_sanitizer_arrive(&fiber->sanitizer, &carrier->sanitizer);
}

/* When the mask is restored, a signal handler may run and wait. How its wait ends must not replace how the fiber's wait
 * ended. */
static void switch_with_carriers_mask(mr_fiber *fiber, mf_pending_signals *kept)
{
    mf_mask_suspend(fiber, kept);
    switch_to_scheduler(fiber);
    int interrupted_by = fiber->interrupted_by;
    mf_mask_resume(fiber, kept);
    fiber->interrupted_by = interrupted_by;
}

/* A separate function, because the signals need more stack than most fibers use. */
__attribute__((noinline)) static void switch_without_awaited(mr_fiber *fiber)
{
    mf_pending_signals kept;
    kept.count = 0;
    switch_with_carriers_mask(fiber, &kept);
}

void mf_suspend(void)
{
    mr_fiber *fiber = mf_current;
    MR_CHECK(fiber->carrier == mf_this_carrier); /* no other thread can continue it */
    if (fiber->held_count)
        mf_held_note_park();
    /* A local variable, because a signal handler may run when the mask is restored, and suspend the fiber, too. */
    int error = errno;
    fiber->calls = 0;
    if (fiber->mask.awaited)
        switch_without_awaited(fiber);
    else if (fiber->mask.is_own)
        switch_with_carriers_mask(fiber, NULL);
    else
        switch_to_scheduler(fiber);
    errno = error;
}

/* ------------------------------------------------------------------------------------------------------- queues --- */

static void push_ready(mf_carrier *carrier, mr_fiber *fiber)
{
    fiber->next_ready = NULL;
    if (carrier->ready_last)
        carrier->ready_last->next_ready = fiber;
    else
        carrier->ready_first = fiber;
    carrier->ready_last = fiber;
}

static mr_fiber *pop_ready(mf_carrier *carrier)
{
    mr_fiber *fiber = carrier->ready_first;
    if (!fiber)
        return NULL;
    carrier->ready_first = fiber->next_ready;
    if (!carrier->ready_first)
        carrier->ready_last = NULL;
    return fiber;
}

/* As soon as the message is in the inbox, its fiber may end, and with the last fiber the carrier. `posting` keeps the
 * carrier alive until this function returns. */
static void post(mf_carrier *carrier, mf_message *message)
{
    atomic_fetch_add(&carrier->posting, 1);
    message->next = atomic_load_explicit(&carrier->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&carrier->inbox, &message->next, message))
        ;
    mr_fiber *fiber = mf_enter_core();
    mr_loop_wake(carrier->loop);
    mf_leave_core(fiber);
    atomic_fetch_sub(&carrier->posting, 1);
}

void mf_make_ready(mr_fiber *fiber)
{
    if (fiber->carrier == mf_this_carrier) {
        push_ready(fiber->carrier, fiber);
        return;
    }
    fiber->resume = (mf_message){.kind = MF_MESSAGE_RESUME, .fiber = fiber};
    post(fiber->carrier, &fiber->resume);
}

static void post_interruption(mr_fiber *fiber, int error)
{
    int expected = 0;
    if (!atomic_compare_exchange_strong(&fiber->interrupt_error, &expected, error))
        return;                              /* an interruption is on its way already */
    atomic_fetch_add(&fiber->references, 1); /* for the message */
    fiber->interrupt = (mf_message){.kind = MF_MESSAGE_INTERRUPT, .fiber = fiber};
    post(fiber->carrier, &fiber->interrupt);
}

/* The record of an ended fiber may outlive its carrier. Holding the lock keeps the fiber from ending. */
void mr_fiber_interrupt(mr_fiber *fiber, int error)
{
    mf_lock_acquire(&fiber->lock);
    if (!fiber->has_ended)
        post_interruption(fiber, error);
    mf_lock_release(&fiber->lock);
}

static void interrupt(mr_fiber *fiber)
{
    int error = atomic_exchange(&fiber->interrupt_error, 0);
    if (fiber->waiting && mf_wait_claim(fiber->waiting, -error)) {
        fiber->interrupted_by = error;
        mf_wait_wake(fiber->waiting);
    } else if (!fiber->interruption) {
        fiber->interruption = error;
    }
    mf_fiber_unreference(fiber);
}

static mf_message *oldest_first(mf_message *message)
{
    mf_message *reversed = NULL;
    while (message) {
        mf_message *next = message->next;
        message->next = reversed;
        reversed = message;
        message = next;
    }
    return reversed;
}

static void open_inbox(mf_carrier *carrier)
{
    if (!atomic_load_explicit(&carrier->inbox, memory_order_relaxed))
        return;
    mf_message *message = oldest_first(atomic_exchange(&carrier->inbox, NULL));
    while (message) {
        mf_message *next = message->next; /* handling it may free it */
        if (message->kind == MF_MESSAGE_RESUME)
            push_ready(carrier, message->fiber);
        else
            interrupt(message->fiber);
        message = next;
    }
}

/* ----------------------------------------------------------------------------------------------------- the loop --- */

static void run_ready(mf_carrier *carrier)
{
    mr_fiber *fiber;
    for (int i = 0; i < FIBERS_PER_POLL && (fiber = pop_ready(carrier)); i++)
        run(carrier, fiber);
}

static mf_operation *operation_of(const mr_completion *completion)
{
    return (mf_operation *)(uintptr_t)completion->user_data;
}

static void prefetch(const void *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)memory + at, 1);
    __asm__ volatile(""); /* GCC 12 would remove a loop that only prefetches */
}

/*
 * With a thousand fibers, no data of a woken fiber is in a cache. The operation leads to the fiber's record, and that
 * to its stack. Prefetching one step at a time for all fibers lets the cache misses overlap.
 */
static void fetch_ahead(const mr_completion *completions, int count)
{
    for (int i = 0; i < count; i++)
        prefetch(operation_of(&completions[i]), sizeof(mf_operation) + sizeof(mf_wait));
    for (int i = 0; i < count; i++)
        prefetch(operation_of(&completions[i])->wait->fiber, offsetof(mr_fiber, held));
    for (int i = 0; i < count; i++)
        prefetch(operation_of(&completions[i])->wait->fiber->context, STACK_IN_USE);
}

static void poll_loop(mf_carrier *carrier)
{
    mr_completion completions[COMPLETIONS_PER_POLL];
    int count = mr_loop_poll(carrier->loop, completions, COMPLETIONS_PER_POLL);
    if (count >= FIBERS_OUT_OF_CACHE)
        fetch_ahead(completions, count);
    for (int i = 0; i < count; i++) {
        mr_loop_release(carrier->loop, completions[i].token);
        mf_operation_complete(operation_of(&completions[i]), completions[i].result);
    }
}

/* The inbox is opened after the poll and before mr_loop_prepare_wait. A message that comes later wakes the loop. */
static void carry_fibers(mf_carrier *carrier)
{
    for (;;) {
        run_ready(carrier);
        poll_loop(carrier);
        open_inbox(carrier);
        if (carrier->ready_first)
            continue;
        if (atomic_load(&carrier->stopping))
            return;
        if (mr_loop_prepare_wait(carrier->loop))
            mr_loop_wait(carrier->loop);
    }
}

/* The signals that the thread which started the carriers blocked. */
static sigset_t signals_of_program;

uint64_t mf_carrier_programs_mask(void)
{
    return mf_mask_of_set(&signals_of_program);
}

/* Signals belong to the program's own threads, except those that a thread causes itself. A program may have blocked
 * some of these for all threads that it starts, for example SIGPIPE, so that a broken pipe is only an error; then
 * carriers block them too. This also changes what calls do: with SIGTTIN blocked, a background read of the terminal
 * fails instead of stopping the process (tty_check_change in drivers/tty/tty_jobctrl.c). */
static void block_signals(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    static const int of_calls[] = {SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    for (size_t i = 0; i < sizeof of_calls / sizeof *of_calls; i++)
        if (!sigismember(&signals_of_program, of_calls[i]))
            sigdelset(&blocked, of_calls[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

static void *carrier_main(void *argument)
{
    mf_carrier *carrier = argument;
    mf_this_carrier = carrier;
    block_signals();
    mf_overflow_watch_thread(carrier->signal_stack);
    mf_watchdog_enter_carrier(carrier);
    carrier->blocked_signals = mf_mask_of_thread();
    mf_sanitizer_adopt_thread(&carrier->sanitizer);
    carry_fibers(carrier);
    mf_overflow_unwatch_thread();
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------- lifetime --- */

static int start(mf_carrier *carrier)
{
    carrier->signal_stack = malloc(MF_SIGNAL_STACK_BYTES);
    int error = carrier->signal_stack ? pthread_create(&carrier->thread, NULL, carrier_main, carrier) : ENOMEM;
    if (error)
        free(carrier->signal_stack);
    return -error;
}

static void stop(mf_carrier *carrier)
{
    atomic_store(&carrier->stopping, true);
    mr_loop_wake(carrier->loop);
    MR_CHECK(pthread_join(carrier->thread, NULL) == 0); /* its memory is freed below */
    while (atomic_load(&carrier->posting))
        sched_yield();
    mr_loop_destroy(carrier->loop);
    free(carrier->signal_stack);
}

static int start_all(mf_carrier *carriers, unsigned count, mr_loop **loops, mf_runtime *runtime, unsigned *started)
{
    int error = 0;
    for (; *started < count && !error; *started += !error) {
        carriers[*started] = (mf_carrier){.index = *started, .runtime = runtime, .loop = loops[*started]};
        error = start(&carriers[*started]);
    }
    return error;
}

static void destroy_loops(mr_loop **loops, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        mr_loop_destroy(loops[i]);
}

int mf_carriers_create(mf_carrier **result, unsigned count, mr_loop **loops, mf_runtime *runtime)
{
    unsigned started = 0;
    mf_carrier *carriers = calloc(count, sizeof *carriers);
    sigset_t all;
    sigfillset(&all);
    /* The carriers inherit this mask, so no signal reaches one before it has set its own. */
    pthread_sigmask(SIG_SETMASK, &all, &signals_of_program);
    int error = carriers ? start_all(carriers, count, loops, runtime, &started) : -ENOMEM;
    pthread_sigmask(SIG_SETMASK, &signals_of_program, NULL);
    if (error) {
        mf_carriers_destroy(carriers, started);
        destroy_loops(loops + started, count - started);
    } else {
        *result = carriers;
    }
    return error;
}

void mf_carriers_destroy(mf_carrier *carriers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        stop(&carriers[i]);
    free(carriers);
}
