/*
 * millrace_fiber.h: fibers on which blocking C code does not block a thread.
 *
 * What it is for: a program spawns *fibers*, functions with stacks of their own, on a few OS threads, the *carriers*.
 * A fiber that would block in one of libc's calls (recv, connect, poll, nanosleep, pthread_mutex_lock, ...) parks
 * instead, and its carrier runs other fibers. The calls keep their names and meanings: this library defines them, and
 * hands everything that is called outside a fiber straight to libc. Below that, everything goes through millrace.h.
 *
 * Three rules
 *
 *  1. A fiber runs on one carrier from its first instruction to its last. Thread-local variables, and the addresses of
 *     them that a compiler keeps, stay right; errno is each fiber's own. Other thread-local variables are shared by
 *     the fibers of a carrier.
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
    size_t stack_size_bytes; /* of a fiber that does not ask for another; used only as it is touched [256 KiB] */
    unsigned stacks_kept;    /* stacks of ended fibers kept for the next, of each size [1024] */

    /* For finding what blocks. MILLRACE_FIBER_DEBUG asks for the same: "uncovered,locks,watchdog=100". */
    int reports_uncovered_calls;      /* at the start, a line for each of mr_uncovered_calls */
    int reports_held_locks;           /* a line when a fiber parks while it holds a pthread lock, once for each place */
    unsigned watchdog_ms;             /* a line when a carrier runs one fiber for so long: the call it is in [never] */
    void (*report)(const char *line); /* takes the lines, on any thread [standard error] */
} mr_carriers_options;

#define MR_CARRIERS_MAX 256

/*
 * Starts the carriers; `options` may be NULL. The first mr_fiber_spawn does it too, with the default options.
 * The first start takes a real-time signal from libc, to interrupt helper threads with: SIGRTMAX is then one less.
 * -EALREADY: they run, or will until the last fiber has ended. -EINVAL: too many carriers, or a stack larger than memory
 * can be. Otherwise what creating loops or threads returned. Waits for no fiber.
 */
int mr_carriers_start(const mr_carriers_options *options);

/* Waits until every fiber has ended, then ends the carriers and frees what they held. -EDEADLK on a fiber; 0 if nothing
 * was started. */
int mr_carriers_stop(void);

/* How many carriers run; 0 before the start. */
unsigned mr_carriers_count(void);

typedef void mr_uncovered_call(void *argument, const char *object, const char *function);

/*
 * Visits each function of libc that may block, is not interposed, and is imported by the program or a library that is
 * loaded now. `visit` may be NULL. Returns how many there are. An import is no call: it says where to look.
 */
unsigned mr_uncovered_calls(mr_uncovered_call *visit, void *argument);

/* ----------------------------------------------------------------------------------------------------- fibers --- */

typedef struct mr_fiber mr_fiber;

#define MR_FIBER_NAME_BYTES 32 /* including the final 0; longer names are cut */

/* Zero-initialise it. */
typedef struct mr_fiber_options {
    const char *name;           /* appears in reports; copied ["fiber"] */
    size_t stack_size_bytes;    /* rounded up to a power of two, at least 16 KiB [of mr_carriers_options] */
    unsigned preferred_carrier; /* 1 + its index, which may be any number: carriers are counted in a circle [0: none] */
} mr_fiber_options;

/*
 * Starts a fiber on the less loaded of two carriers chosen at random, or on the one that options prefer unless that has
 * much more to do than another. `options` may be NULL. With `fiber` not NULL the caller must join or detach it. Switching is the fiber's affair: this returns before it runs, unless it runs on
 * another carrier. -ENOMEM; -EINVAL for a stack beyond the machine's address space; or an error of mr_carriers_start.
 */
int mr_fiber_spawn(mr_fiber **fiber, const mr_fiber_options *options, void *(*run)(void *argument), void *argument);

/* Waits for the end of a fiber, takes what it returned (`result` may be NULL) and frees it. -EDEADLK: on itself.
 * Ends with -EINTR when interrupted; the fiber can then still be joined. */
int mr_fiber_join(mr_fiber *fiber, void **result);

/* Gives up the right to join: the fiber is freed when it ends. */
void mr_fiber_detach(mr_fiber *fiber);

/* The running fiber, or NULL on an OS thread. */
mr_fiber *mr_fiber_self(void);

/* The name it was given. */
const char *mr_fiber_name(const mr_fiber *fiber);

/* The index of the carrier it runs on, or ran on. */
unsigned mr_fiber_carrier(const mr_fiber *fiber);

/* What it was spawned with, if it was spawned to run this function; NULL if with another. */
void *mr_fiber_argument(const mr_fiber *fiber, void *(*run)(void *argument));

/*
 * From here to mr_fiber_leave_thread the running fiber is a plain part of its carrier's OS thread: interposed calls are
 * libc's, what waits holds up the carrier, and the mask of signals is the carrier's. For code that keeps accounts of OS
 * threads, as run-time systems of other languages do. Returns what mr_fiber_leave_thread takes; NULL (on an OS thread, or
 * if nested) is fine there.
 */
mr_fiber *mr_fiber_enter_thread(void);
void mr_fiber_leave_thread(mr_fiber *fiber);

/* Lets the other fibers of the carrier run that can. On an OS thread: sched_yield. */
void mr_fiber_yield(void);

/* Waits until the deadline, for ever without one. 0, or -EINTR. */
int mr_fiber_sleep_until(uint64_t deadline_ns);

/* The same, from now. */
int mr_fiber_sleep(uint64_t duration_ns);

/*
 * Makes the wait in which a fiber is parked, or else its next one, end with `error` (EINTR, ETIMEDOUT, ...): a interposed
 * call returns -1 with that errno. If it has done a part of its work before, it returns that, and the next wait ends with
 * `error`. Waits for locks are not interrupted; those for condition variables wake once, and leave the rest to the next
 * wait. A second interruption before the first has had its effect does nothing. The fiber must not have been joined. [any
 * thread]
 */
void mr_fiber_interrupt(mr_fiber *fiber, int error);

/* ---------------------------------------------------------------------------------------------------- channels --- */

/* A queue of items of one size between any number of senders and receivers, in the order of sending. */
typedef struct mr_channel mr_channel;

/* A channel that holds up to `capacity` items (at least 1) of `item_size_bytes` each. -EINVAL, -ENOMEM. */
int mr_channel_create(mr_channel **channel, size_t item_size_bytes, size_t capacity);

/* Nobody may be waiting on it. Items left in it are dropped. */
void mr_channel_destroy(mr_channel *channel);

/* Appends a copy of the item; waits while the channel is full. -EPIPE: it is closed. -ETIMEDOUT, -EINTR. */
int mr_channel_send(mr_channel *channel, const void *item, uint64_t deadline_ns);

/* Takes the oldest item; waits while there is none. -EPIPE: closed, and empty. -ETIMEDOUT, -EINTR. */
int mr_channel_receive(mr_channel *channel, void *item, uint64_t deadline_ns);

/* The same without waiting: -EAGAIN. */
int mr_channel_try_send(mr_channel *channel, const void *item);
int mr_channel_try_receive(mr_channel *channel, void *item);

/* No more items: senders fail with -EPIPE from now on, receivers when they have taken what is left. Harmless twice. */
void mr_channel_close(mr_channel *channel);

/* ------------------------------------------------------------------------------------------------------ events --- */

/* A flag that can be waited for. It stays set until it is reset. */
typedef struct mr_event mr_event;

/* 0 or -ENOMEM. */
int mr_event_create(mr_event **event);
/* Nobody may be waiting for it. */
void mr_event_destroy(mr_event *event);
/* Everybody who waits goes on. Harmless twice. */
void mr_event_set(mr_event *event);
void mr_event_reset(mr_event *event);
/* -ETIMEDOUT, -EINTR. */
int mr_event_wait(mr_event *event, uint64_t deadline_ns);

/* ------------------------------------------------------------------------------------------ mutexes, semaphores --- */

/* Owned by a fiber or an OS thread, handed over in the order of asking. */
typedef struct mr_mutex mr_mutex;

/* 0 or -ENOMEM. */
int mr_mutex_create(mr_mutex **mutex);
/* Nobody may own it or be waiting for it. */
void mr_mutex_destroy(mr_mutex *mutex);
/* -EDEADLK: the caller owns it. -ETIMEDOUT. Not interrupted. */
int mr_mutex_lock(mr_mutex *mutex, uint64_t deadline_ns);
/* -EAGAIN: somebody owns it. */
int mr_mutex_try_lock(mr_mutex *mutex);
/* -EPERM: the caller does not own it. */
int mr_mutex_unlock(mr_mutex *mutex);

/* A counter that waits rather than become negative; first come, first served. */
typedef struct mr_semaphore mr_semaphore;

/* 0 or -ENOMEM. */
int mr_semaphore_create(mr_semaphore **semaphore, unsigned count);
/* Nobody may be waiting for it. */
void mr_semaphore_destroy(mr_semaphore *semaphore);
/* Whoever has waited longest goes on, or the counter grows. */
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

/* One thing to wait for. `result` is 0 if it happened, or the error that ended it: -EPIPE for a closed channel,
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
 * Waits until one of the cases can happen, lets it happen and returns its index; when several can, one of them at
 * random. -ETIMEDOUT, -EINTR: none happened. -EINVAL: no case, or more than MR_CASES_MAX. -ENOMEM.
 */
int mr_select(mr_case *cases, size_t count, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif

#endif
