/*
 * deadline.h: the deadlines of operations and of handles, as timers of the loop's wheel. Must not know: backends,
 * system calls.
 */
#ifndef MILLRACE_DEADLINE_H
#define MILLRACE_DEADLINE_H

#include "loop.h"

void mr_deadline_begin(const mr_loop *loop, mr_slot *slot);

/* Converts a duration (MR_WITHIN) to a point in time, when an operation begins to wait. */
static inline void mr_deadline_fix(const mr_loop *loop, mr_slot *slot)
{
    if (slot->request.flags & MR_WITHIN)
        mr_deadline_begin(loop, slot);
}

/* Arms the timer of an operation that has a deadline. */
void mr_deadline_arm(mr_loop *loop, mr_slot *slot);

/*
 * Arms the timer that ends the operations of a direction when the handle's deadline passes. One timer serves them all.
 * It stays armed when they end or the deadline moves to a later moment; if it fires too early, it is armed again.
 */
void mr_deadline_watch(mr_loop *loop, mr_descriptor *descriptor, int direction);

#endif
