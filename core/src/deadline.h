/*
 * deadline.h: the deadlines of operations and of handles, as timers of the loop's wheel. Must not know: backends, system
 * calls.
 */
#ifndef MILLRACE_DEADLINE_H
#define MILLRACE_DEADLINE_H

#include "loop.h"

void mr_deadline_begin(const mr_loop *loop, mr_slot *slot);

/* A length of time (MR_WITHIN) becomes a point in time when the waiting begins. */
static inline void mr_deadline_fix(const mr_loop *loop, mr_slot *slot)
{
    if (slot->request.flags & MR_WITHIN)
        mr_deadline_begin(loop, slot);
}

/* Arms the timer of an operation that has a deadline. */
void mr_deadline_arm(mr_loop *loop, mr_slot *slot);

/*
 * Sees to it that the operations of a direction end when the handle's deadline passes. One timer serves them all. It is
 * left alone when they end and when the deadline is moved to a later moment; when it fires too early, it is set again.
 */
void mr_deadline_watch(mr_loop *loop, mr_descriptor *descriptor, int direction);

#endif
