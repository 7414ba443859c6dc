/*
 * millrace_fiber.h: fibers on which blocking C code does not block a thread.
 *
 * A program spawns *fibers*: functions, each with its own stack. A few OS threads, the *carriers*, run them. A fiber
 * that would block in one of libc's calls (recv, connect, poll, nanosleep, pthread_mutex_lock, ...) parks instead, and
 * its carrier runs other fibers. The calls keep their names and meanings: this library defines functions with these
 * names (symbol interposition), which call libc's outside fibers. All waiting goes through millrace.h.
 *
 * Three rules
 *
 *  1. A fiber runs on one carrier from its first instruction to its last. So the addresses of thread-local variables
 *     stay the same. Each fiber has its own errno; the fibers of a carrier share all other thread-local variables.
 *  2. Fibers of one carrier never run at the same time, and switch only where one of them waits or yields.
 *  3. OS threads may call all functions here too, which then block the thread.
 *
 * Errors are negative errno values; errno itself stays untouched. Deadlines are points in time on mr_clock_now_ns();
 * MR_NO_DEADLINE is none. mr_fiber_interrupt ends a fiber's wait with -EINTR or another error.
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
    size_t stack_size_bytes; /* the default for a fiber; only touched pages use memory [256 KiB] */
    unsigned stacks_kept;    /* stacks of ended fibers that are kept for later ones, per size [1024] */

    /* For finding calls that block. The environment variable MILLRACE_FIBER_DEBUG sets the same:
     * "uncovered,locks,watchdog=100". */
    int reports_uncovered_calls;      /* report each of mr_uncovered_calls at the start */
    int reports_held_locks;           /* report a fiber that parks while it holds a pthread lock, once per call site */
    unsigned watchdog_ms;             /* report a fiber, and its call, that a carrier runs for longer [never] */
    void (*report)(const char *line); /* receives the reports, on any thread [standard error] */
} mr_carriers_options;

#define MR_CARRIERS_MAX 256

/*
 * Starts the carriers. `options` may be NULL. Otherwise the first mr_fiber_spawn starts them with the default options.
 * The first start reserves a real-time signal for interrupting helper threads, so SIGRTMAX is one less afterwards.
 * Returns 0; -EALREADY if they run already, or until the last fiber ends; -EINVAL for too many carriers or a stack that
 * is too large for the address space; or the error of creating loops or threads.
 */
int mr_carriers_start(const mr_carriers_options *options);

/* Blocks until every fiber has ended, then ends the carriers and frees their memory. Returns 0, also if none were
 * started, or -EDEADLK on a fiber. */
int mr_carriers_stop(void);

/* The number of running carriers; 0 before the start. */
unsigned mr_carriers_count(void);

/* Receives one result of mr_uncovered_calls: the program or library, and the function that it imports. */
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
 * Starts a fiber on the less loaded of two carriers chosen at random, or on the preferred one unless that is much more
 * loaded than another. `options` may be NULL. If `fiber` is not NULL, the caller must join or detach the fiber. A fiber
 * on another carrier may run before this returns. Returns 0, -ENOMEM, -EINVAL for a stack that is too large for the
 * address space, or an error of mr_carriers_start.
 */
int mr_fiber_spawn(mr_fiber **fiber, const mr_fiber_options *options, void *(*run)(void *argument), void *argument);

/* Waits for the end of a fiber, stores its return value (`result` may be NULL) and frees it. Returns 0, -EDEADLK if a
 * fiber joins itself, or -EINTR; after -EINTR the fiber can still be joined. */
int mr_fiber_join(mr_fiber *fiber, void **result);

/* Lets the fiber be freed when it ends. Do not join it afterwards. */
void mr_fiber_detach(mr_fiber *fiber);

/* The running fiber, or NULL on an OS thread. */
mr_fiber *mr_fiber_self(void);

/* The fiber's name. */
const char *mr_fiber_name(const mr_fiber *fiber);

/* The index of the fiber's carrier, also after the fiber has ended. */
unsigned mr_fiber_carrier(const mr_fiber *fiber);

/* The fiber's argument if it was spawned with the function `run`; NULL otherwise. */
void *mr_fiber_argument(const mr_fiber *fiber, void *(*run)(void *argument));

/*
 * Makes the running fiber act as its carrier's OS thread until mr_fiber_leave_thread: interposed calls are libc's, a
 * wait blocks the carrier, and the signal mask is the carrier's. For code that keeps data per OS thread, as run-time
 * systems of other languages do. Returns the argument for mr_fiber_leave_thread; NULL on an OS thread, or if nested.
 */
mr_fiber *mr_fiber_enter_thread(void);
void mr_fiber_leave_thread(mr_fiber *fiber);

/* Lets the other runnable fibers of the carrier run. Calls sched_yield on an OS thread. */
void mr_fiber_yield(void);

/* Waits until the deadline, or for ever without one. Returns 0 or -EINTR. */
int mr_fiber_sleep_until(uint64_t deadline_ns);

/* Waits for a duration. Returns 0 or -EINTR. */
int mr_fiber_sleep(uint64_t duration_ns);

/*
 * Ends the wait in which a fiber is parked, or its next one, with `error` (EINTR, ETIMEDOUT, ...). An interposed call
 * then returns -1 with that errno. If the call has already done a part of its work, it returns that part, and the next
 * wait ends with `error`. Waits for locks are not interrupted. A wait for a condition variable wakes up once
 * spuriously, and the next wait ends with `error`. A second interruption before the first has taken effect does
 * nothing. Do not call this for a fiber that was joined. [any thread]
 */
void mr_fiber_interrupt(mr_fiber *fiber, int error);

/* ---------------------------------------------------------------------------------------------------- channels --- */

/* A queue of items of equal size for any number of senders and receivers. Items arrive in the order of sending. */
typedef struct mr_channel mr_channel;

/* Creates a channel that holds up to `capacity` items (at least 1) of `item_size_bytes` each. Returns 0, -EINVAL or
 * -ENOMEM. */
int mr_channel_create(mr_channel **channel, size_t item_size_bytes, size_t capacity);

/* Frees a channel and drops its items. No fiber or thread may wait on it. */
void mr_channel_destroy(mr_channel *channel);

/* Appends a copy of the item. Waits while the channel is full. Returns 0, -EPIPE if it is closed, -ETIMEDOUT or
 * -EINTR. */
int mr_channel_send(mr_channel *channel, const void *item, uint64_t deadline_ns);

/* Removes the oldest item. Waits while there is none. Returns 0, -EPIPE if the channel is closed and empty, -ETIMEDOUT
 * or -EINTR. */
int mr_channel_receive(mr_channel *channel, void *item, uint64_t deadline_ns);

/* Send and receive without waiting. Return -EAGAIN if they would have to wait. */
int mr_channel_try_send(mr_channel *channel, const void *item);
int mr_channel_try_receive(mr_channel *channel, void *item);

/* Closes a channel. Senders then get -EPIPE, and receivers do once they have received the remaining items. A second
 * call does nothing. */
void mr_channel_close(mr_channel *channel);

/* ------------------------------------------------------------------------------------------------------ events --- */

/* A flag for which fibers and threads can wait. It stays set until it is reset. */
typedef struct mr_event mr_event;

/* Creates an event that is not set. Returns 0 or -ENOMEM. */
int mr_event_create(mr_event **event);
/* Frees an event. No fiber or thread may wait for it. */
void mr_event_destroy(mr_event *event);
/* Sets the event and wakes all waiters. A second call does nothing. */
void mr_event_set(mr_event *event);
/* Makes the event unset again. */
void mr_event_reset(mr_event *event);
/* Waits until the event is set. Returns 0, -ETIMEDOUT or -EINTR. */
int mr_event_wait(mr_event *event, uint64_t deadline_ns);

/* ------------------------------------------------------------------------------------------ mutexes, semaphores --- */

/* A lock that a fiber or an OS thread owns. Waiters get it in the order of their requests. */
typedef struct mr_mutex mr_mutex;

/* Creates a free mutex. Returns 0 or -ENOMEM. */
int mr_mutex_create(mr_mutex **mutex);
/* Frees a mutex. No fiber or thread may own it or wait for it. */
void mr_mutex_destroy(mr_mutex *mutex);
/* Waits for the mutex and locks it. Returns 0, -EDEADLK if the caller owns it, or -ETIMEDOUT. Interruptions do not end
 * the wait. */
int mr_mutex_lock(mr_mutex *mutex, uint64_t deadline_ns);
/* Locks the mutex without waiting. Returns 0, or -EAGAIN if it is owned. */
int mr_mutex_try_lock(mr_mutex *mutex);
/* Unlocks the mutex. Returns 0, or -EPERM if the caller does not own it. */
int mr_mutex_unlock(mr_mutex *mutex);

/* A counter that never becomes negative: decreasing it waits while it is 0. Waiters are served in order of arrival. */
typedef struct mr_semaphore mr_semaphore;

/* Creates a semaphore with this count. Returns 0 or -ENOMEM. */
int mr_semaphore_create(mr_semaphore **semaphore, unsigned count);
/* Frees a semaphore. No fiber or thread may wait for it. */
void mr_semaphore_destroy(mr_semaphore *semaphore);
/* Wakes the waiter that has waited longest, or increases the counter if there is none. */
void mr_semaphore_post(mr_semaphore *semaphore);
/* Decreases the counter; waits while it is 0. Returns 0, -ETIMEDOUT or -EINTR. */
int mr_semaphore_wait(mr_semaphore *semaphore, uint64_t deadline_ns);
/* Decreases the counter without waiting. Returns 0, or -EAGAIN if it is 0. */
int mr_semaphore_try_wait(mr_semaphore *semaphore);

/* ------------------------------------------------------------------------------------------------------ select --- */

typedef enum mr_case_kind {
    MR_CASE_SEND,     /* channel, item */
    MR_CASE_RECEIVE,  /* channel, item */
    MR_CASE_EVENT,    /* event */
    MR_CASE_READABLE, /* descriptor */
    MR_CASE_WRITABLE  /* descriptor */
} mr_case_kind;

/* Something to wait for. mr_select sets `result` to 0 if it happened, or to an error: -EPIPE for a closed channel,
 * -EBADF. */
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
 * random. Returns -ETIMEDOUT or -EINTR if none happened, -EINVAL for no case or more than MR_CASES_MAX, or -ENOMEM.
 */
int mr_select(mr_case *cases, size_t count, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif

#endif
