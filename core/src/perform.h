/*
 * perform.h: how an operation is performed and how it ends.
 *
 * An operation is performed until it has ended or would block. Each result is settled: it is the end, or the operation is
 * performed again, now or after a pause. A backend performs an operation when it may have become possible, or has the system do it
 * and settles the result. Must not know: system calls.
 */
#ifndef MILLRACE_PERFORM_H
#define MILLRACE_PERFORM_H

#include "loop.h"

/* Performs an operation without blocking until it has ended, or its result is held back (true), or it would block (false). */
bool mr_perform(mr_loop *loop, mr_slot *slot);

/* Performs one step of it, with a borrowed buffer if it needs one, and leaves the result to be settled. -EAGAIN: it would block. */
int64_t mr_perform_step(mr_loop *loop, mr_slot *slot);

/* Performs an operation on the spot: MR_NOW, and what never waits. */
void mr_perform_now(mr_loop *loop, mr_slot *slot);

/* Performs an operation for the last time: it was asked to end, and the system no longer knows of it. What arrived before its
 * deadline counts, even if nobody has looked yet. */
void mr_perform_last(mr_loop *loop, mr_slot *slot);

/* Is an operation performed when it is submitted? It is not if it would overtake others, or if the backend knows that there
 * is nothing to be had. A caller that waits for a foreign descriptor and has just tried need not look again: watching it
 * reports what is there already. */
bool mr_is_performed_first(const mr_slot *slot, bool is_exhausted);

/*
 * A backend reports what became of an operation. Returns true if that was the end of it (its slot is then no longer
 * the backend's), false if the backend must carry it out again: the rest of an MR_ALL, a connection that vanished from
 * the queue, or an attempt the kernel gave up because its thread ended. `result` is never -EAGAIN.
 */
bool mr_loop_settle(mr_loop *loop, mr_slot *slot, int64_t result);

/* The end of an operation: from here on its buffer is the caller's again. */
void mr_loop_finish(mr_loop *loop, mr_slot *slot, int64_t result);

/* Asks an operation to end with `reason`, or all those of one direction. The first reason stands. */
void mr_loop_end_operation(mr_loop *loop, mr_slot *slot, int reason);
void mr_loop_end_direction(mr_loop *loop, mr_descriptor *descriptor, int direction, int reason);

/* Ended by the kernel, which ends what a thread submitted when that thread exits; or by a signal. */
bool mr_was_interrupted(int64_t result);

#endif
