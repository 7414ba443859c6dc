/*
 * wait.h: how a fiber or an OS thread waits for the first of several things, and how one of them decides the wait.
 *
 * mf_wait_claim decides a wait, once. The caller that succeeds must wake the waiter (mf_wait_wake). Until then the
 * memory of the waiter, its nodes and its operations stays valid. A wait may be decided before the waiter has parked.
 * That is safe, because only the fiber's own carrier continues it, and only after the fiber has switched away.
 */
#ifndef MILLRACE_FIBER_WAIT_H
#define MILLRACE_FIBER_WAIT_H

#include "lock.h"
#include "millrace_fiber.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#define MF_UNDECIDED INT_MIN
/* The deadline of the wait has passed. This is not -ETIMEDOUT, because an interruption may have that error. A caller
 * that waits in short pauses must tell the two apart, or it would lose an interruption that comes just before a pause
 * ends. */
#define MF_DEADLINE_PASSED (INT_MIN + 1)

typedef struct mf_wait {
    /* MF_UNDECIDED, a number of the waiter's choice (>= 0), MF_DEADLINE_PASSED, or a negative errno */
    _Atomic int outcome;
    mr_fiber *fiber; /* NULL: an OS thread, which sleeps on `word` */
    atomic_uint word;
    bool decided_itself; /* no wake-up will come */
} mf_wait;

/* Prepares a wait of the running fiber or OS thread. */
void mf_wait_init(mf_wait *wait);

/* Decides the wait. Returns false if it was decided before. [any thread] */
bool mf_wait_claim(mf_wait *wait, int outcome);

/* Decides the waiter's own wait: no wake-up follows, and it will not park. */
bool mf_wait_claim_own(mf_wait *wait, int outcome);

/* Continues the waiter. Only the caller that decided the wait calls this, once, and does not touch the wait afterwards.
 * [any thread] */
void mf_wait_wake(mf_wait *wait);

/* The effect of an interruption on a wait. It ends an interruptible wait, and does not affect an uninterruptible one.
 * It ends a rousable wait, too, but also the next interruptible one: the fiber checks its condition and may wait
 * again. */
typedef enum mf_interruptibility { MF_INTERRUPTIBLE, MF_UNINTERRUPTIBLE, MF_ROUSABLE } mf_interruptibility;

/* Parks until the wait is decided, the deadline passes or an interruption comes. Returns the outcome,
 * MF_DEADLINE_PASSED or the error of the interruption. */
int mf_wait_park(mf_wait *wait, uint64_t deadline_ns, mf_interruptibility interruptibility);

/* Pauses, for polling a condition that no event reports. Not interruptible. */
void mf_wait_a_millisecond(void);

/* The last wait may have ended with this error, but the call does not fail, because it has done a part or all of its
 * work. If the error was that of an interruption, the next wait ends with it. Otherwise the interruption would be
 * lost. */
void mf_wait_put_interruption_back(int error);

/* Converts an outcome to the result of a function in millrace_fiber.h. */
static inline int mf_wait_result(int outcome)
{
    return outcome == MF_DEADLINE_PASSED ? -ETIMEDOUT : outcome;
}

/* -------------------------------------------------------------------------------------------- waiters --- */

/* One thing that a waiter waits for. */
typedef struct mf_node {
    struct mf_node *next, *previous;
    mf_wait *wait;
    int outcome; /* the outcome if this node decides the wait */
    int result;  /* for the waiter; set by the thread that has claimed the wait */
    void *item;  /* a channel's */
    bool queued;
} mf_node;

/* Waiters in the order of arrival. The owner of the queue protects it by a lock. */
typedef struct mf_queue {
    mf_node *first, *last;
} mf_queue;

/* Appends a node. */
void mf_queue_push(mf_queue *queue, mf_node *node);

/* Removes a node, if it is queued. */
void mf_queue_remove(mf_queue *queue, mf_node *node);

/* Removes nodes until one can be claimed; returns NULL if none could. The caller must then wake the claimed one. */
mf_node *mf_queue_claim(mf_queue *queue);

/* ------------------------------------------------------------------------------- operations of the core's loop --- */

/* An operation on the loop of the fiber's carrier, for which a wait may wait. Fibers only. */
typedef struct mf_operation {
    mf_wait *wait;
    mr_fiber *awaiting; /* the fiber, if it waits only for the end of this operation */
    mr_token token;
    int outcome;
    bool pending, cancelled;
    int64_t result;
} mf_operation;

/* Starts an operation, which claims the wait when it ends. Keeps errno, as the functions below do. */
void mf_operation_start(mf_operation *operation, mf_wait *wait, int outcome, const mr_request *request);

/* Makes a pending operation end soon. If several must end, call this for all before mf_operation_end. */
void mf_operation_cancel(mf_operation *operation);

/* Ends the operation if it is still pending, and returns when it has ended. */
void mf_operation_end(mf_operation *operation);

/* Handles the completion of an operation, on its carrier. */
void mf_operation_complete(mf_operation *operation, int64_t result);

#endif
