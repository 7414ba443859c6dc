/*
 * millrace_fiber.h: fibers on which blocking C code does not block a thread.
 *
 * A program spawns *fibers*: functions, each with its own stack. A few OS threads, the *carriers*, run them. A fiber
 * that would block in one of libc's calls (recv, connect, poll, nanosleep, pthread_mutex_lock, ...) parks instead, and
 * its carrier runs other fibers. The calls keep their names and meanings: this library defines functions with these
 * names (symbol interposition), which outside fibers call libc's. Below that, everything goes through millrace.h.
 *
 * Three rules
 *
 *  1. A fiber runs on one carrier from its first instruction to its last. So the addresses of thread-local variables
 *     stay the same. Each fiber has its own errno; the fibers of a carrier share all other thread-local variables.
 *  2. Fibers of one carrier never run at the same time, and switch only where one of them waits or yields.
 *  3. Everything here may be called on OS threads too, where it blocks the thread.
 *
 * Errors are negative errno values; errno itself stays untouched. Deadlines are points on mr_clock_now_ns();
 * MR_NO_DEADLINE is none. A wait on a fiber ends with -EINTR, or the error chosen there, by mr_fiber_interrupt.
 */
#ifndef MILLRACE_FIBER_H
#define MILLRACE_FIBER_H

#include "millrace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------------------- carriers --- */

/* Zero-initialise it; 0 stands for the value given in brackets. */
typedef struct mr_carriers_options {
    unsigned carriers;       /* OS threads that run fibers [one for each processor this process may use] */
    mr_backend backend;      /* see mr_backend_choose [MR_BACKEND_AUTO] */
    size_t stack_size_bytes; /* the default for a fiber; memory is used only where it is touched [256 KiB] */
    unsigned stacks_kept;    /* stacks of ended fibers that are kept for later ones, per size [1024] */

    /* For finding calls that block. The variable MILLRACE_FIBER_DEBUG sets the same: "uncovered,locks,watchdog=100". */
    int reports_uncovered_calls;      /* report each of mr_uncovered_calls at the start */
    int reports_held_locks;           /* report a fiber that parks while it holds a pthread lock, once per place */
    unsigned watchdog_ms;             /* report a fiber, and its call, that a carrier runs for so long [never] */
    void (*report)(const char *line); /* receives the reports, on any thread [standard error] */
} mr_carriers_options;

#define MR_CARRIERS_MAX 256

/*
 * Starts the carriers. `options` may be NULL. Otherwise the first mr_fiber_spawn starts them with the default options.
 * The first start reserves a real-time signal for interrupting helper threads, so SIGRTMAX is one less afterwards.
 * -EALREADY: they run already, or until the last fiber ends. -EINVAL: too many carriers, or a stack that is too large
 * for the address space. Otherwise the error of creating loops or threads.
 */
int mr_carriers_start(const mr_carriers_options *options);

/* Waits until every fiber has ended, then ends the carriers and frees their memory. -EDEADLK on a fiber; 0 if
 * nothing was started. */
int mr_carriers_stop(void);

/* The number of running carriers; 0 before the start. */
unsigned mr_carriers_count(void);

typedef void mr_uncovered_call(void *argument, const char *object, const char *function);

/*
 * Calls `visit` for each function of libc that may block, is not interposed, and is imported by the program or a loaded
 * library. `visit` may be NULL. Returns the number of such functions. The program may never call them: the list shows
 * where to look.
 */
unsigned mr_uncovered_calls(mr_uncovered_call *visit, void *argument);

/* ----------------------------------------------------------------------------------------------------- fibers --- */

typedef struct mr_fiber mr_fiber;

#define MR_FIBER_NAME_BYTES 32 /* including the final 0; longer names are truncated */

/* Zero-initialise it. */
typedef struct mr_fiber_options {
    const char *name;           /* shown in reports; copied ["fiber"] */
    size_t stack_size_bytes;    /* rounded up to a power of two, at least 16 KiB [of mr_carriers_options] */
    unsigned preferred_carrier; /* 1 + the index of a carrier, modulo the number of carriers [0: no preference] */
} mr_fiber_options;

/*
 * Starts a fiber on the less loaded of two carriers chosen at random, or on the preferred one unless that has much more
 * to do than another. `options` may be NULL. If `fiber` is not NULL, the caller must join or detach the fiber. This
 * returns before the fiber runs, unless it runs on another carrier. -ENOMEM; -EINVAL: the stack is too large for the
 * address space; or an error of mr_carriers_start.
 */
int mr_fiber_spawn(mr_fiber **fiber, const mr_fiber_options *options, void *(*run)(void *argument), void *argument);

/* Waits for the end of a fiber, stores its return value (`result` may be NULL) and frees it. -EDEADLK: a fiber
 * cannot join itself. -EINTR: interrupted; the fiber can still be joined. */
int mr_fiber_join(mr_fiber *fiber, void **result);

/* The fiber is freed when it ends, and can no longer be joined. */
void mr_fiber_detach(mr_fiber *fiber);

/* The running fiber, or NULL on an OS thread. */
mr_fiber *mr_fiber_self(void);

/* The name it was given. */
const char *mr_fiber_name(const mr_fiber *fiber);

/* The index of the carrier it runs on, or ran on. */
unsigned mr_fiber_carrier(const mr_fiber *fiber);

/* The argument it was spawned with, if it was spawned with this function; NULL otherwise. */
void *mr_fiber_argument(const mr_fiber *fiber, void *(*run)(void *argument));

/*
 * From here to mr_fiber_leave_thread the running fiber acts as its carrier's OS thread: interposed calls are libc's, a
 * wait blocks the carrier, and the signal mask is the carrier's. For code that keeps data per OS thread, as run-time
 * systems of other languages do. Returns the argument for mr_fiber_leave_thread, which may be NULL (on an OS thread, or
 * if nested).
 */
mr_fiber *mr_fiber_enter_thread(void);
void mr_fiber_leave_thread(mr_fiber *fiber);

/* Lets the other runnable fibers of the carrier run. On an OS thread: sched_yield. */
void mr_fiber_yield(void);

/* Waits until the deadline, or for ever without one. Returns 0 or -EINTR. */
int mr_fiber_sleep_until(uint64_t deadline_ns);

/* The same for a duration from now. */
int mr_fiber_sleep(uint64_t duration_ns);

/*
 * Ends the wait in which a fiber is parked, or its next one, with `error` (EINTR, ETIMEDOUT, ...). An interposed call
 * then returns -1 with that errno. If the call has already done a part of its work, it returns that, and the next wait
 * ends with `error`. Waits for locks are not interrupted. A wait for a condition variable ends once without a reason,
 * and the next wait ends with `error`. A second interruption before the first took effect does nothing. The fiber must
 * not have been joined. [any thread]
 */
void mr_fiber_interrupt(mr_fiber *fiber, int error);

/* ---------------------------------------------------------------------------------------------------- channels --- */

/* A queue of items of equal size for any number of senders and receivers. Items arrive in the order of sending. */
typedef struct mr_channel mr_channel;

/* A channel that holds up to `capacity` items (at least 1) of `item_size_bytes` each. -EINVAL, -ENOMEM. */
int mr_channel_create(mr_channel **channel, size_t item_size_bytes, size_t capacity);

/* Frees a channel. No fiber or thread may wait on it. Its items are dropped. */
void mr_channel_destroy(mr_channel *channel);

/* Appends a copy of the item. Waits while the channel is full. -EPIPE: it is closed. -ETIMEDOUT, -EINTR. */
int mr_channel_send(mr_channel *channel, const void *item, uint64_t deadline_ns);

/* Takes the oldest item. Waits while there is none. -EPIPE: it is closed and empty. -ETIMEDOUT, -EINTR. */
int mr_channel_receive(mr_channel *channel, void *item, uint64_t deadline_ns);

/* The same without waiting. -EAGAIN: it would have to wait. */
int mr_channel_try_send(mr_channel *channel, const void *item);
int mr_channel_try_receive(mr_channel *channel, void *item);

/* Closes a channel. Senders then fail with -EPIPE, and receivers do after they have taken the remaining items. A second
 * call does nothing. */
void mr_channel_close(mr_channel *channel);

/* ------------------------------------------------------------------------------------------------------ events --- */

/* A flag for which fibers and threads can wait. It stays set until it is reset. */
typedef struct mr_event mr_event;

/* 0 or -ENOMEM. */
int mr_event_create(mr_event **event);
/* No fiber or thread may wait for it. */
void mr_event_destroy(mr_event *event);
/* Wakes all that wait. A second call does nothing. */
void mr_event_set(mr_event *event);
void mr_event_reset(mr_event *event);
/* -ETIMEDOUT, -EINTR. */
int mr_event_wait(mr_event *event, uint64_t deadline_ns);

/* ------------------------------------------------------------------------------------------ mutexes, semaphores --- */

/* A lock that a fiber or an OS thread owns. It is passed on in the order of the requests. */
typedef struct mr_mutex mr_mutex;

/* 0 or -ENOMEM. */
int mr_mutex_create(mr_mutex **mutex);
/* No fiber or thread may own it or wait for it. */
void mr_mutex_destroy(mr_mutex *mutex);
/* -EDEADLK: the caller owns it. -ETIMEDOUT. Not interrupted. */
int mr_mutex_lock(mr_mutex *mutex, uint64_t deadline_ns);
/* -EAGAIN: it is owned. */
int mr_mutex_try_lock(mr_mutex *mutex);
/* -EPERM: the caller does not own it. */
int mr_mutex_unlock(mr_mutex *mutex);

/* A counter that never becomes negative: decreasing it waits. Waiting is first come, first served. */
typedef struct mr_semaphore mr_semaphore;

/* 0 or -ENOMEM. */
int mr_semaphore_create(mr_semaphore **semaphore, unsigned count);
/* No fiber or thread may wait for it. */
void mr_semaphore_destroy(mr_semaphore *semaphore);
/* Wakes the one that has waited longest, or increases the counter. */
void mr_semaphore_post(mr_semaphore *semaphore);
/* -ETIMEDOUT, -EINTR. */
int mr_semaphore_wait(mr_semaphore *semaphore, uint64_t deadline_ns);
/* -EAGAIN. */
int mr_semaphore_try_wait(mr_semaphore *semaphore);

/* ------------------------------------------------------------------------------------------------------ select --- */

typedef enum mr_case_kind {
    MR_CASE_SEND,     /* channel, item */
    MR_CASE_RECEIVE,  /* channel, item */
    MR_CASE_EVENT,    /* event */
    MR_CASE_READABLE, /* descriptor */
    MR_CASE_WRITABLE  /* descriptor */
} mr_case_kind;

/* Something to wait for. `result` is 0 if it happened, or its error: -EPIPE for a closed channel, -EBADF. */
typedef struct mr_case {
    mr_case_kind kind;
    mr_channel *channel;
    void *item;
    mr_event *event;
    int descriptor;
    int result;
} mr_case;

#define MR_CASES_MAX 64

/*
 * Waits until one of the cases can happen, carries it out and returns its index. If several can, it chooses one at
 * random. -ETIMEDOUT, -EINTR: none happened. -EINVAL: no case, or more than MR_CASES_MAX. -ENOMEM.
 */
int mr_select(mr_case *cases, size_t count, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif

#endif
