/*
 * perform.h: performs operations and ends them.
 *
 * An operation is performed until it has ended or would block. Settling a result decides whether the operation has
 * ended or is performed again, now or after a pause. A backend performs an operation when it may succeed, or lets the
 * system carry it out and settles the result. Must not know: system calls.
 */
#ifndef MILLRACE_PERFORM_H
#define MILLRACE_PERFORM_H

#include "loop.h"

/* Performs an operation without blocking. Returns true when it has ended or its result is delayed, false when it would
 * block. */
bool mr_perform(mr_loop *loop, mr_slot *slot);

/* Tries an operation once, with a borrowed buffer if it needs one. Returns the result, which the caller must settle;
 * -EAGAIN if it would block. */
int64_t mr_perform_step(mr_loop *loop, mr_slot *slot);

/* Performs an operation that must not wait (MR_NOW, MR_SHUTDOWN), and ends it with -EAGAIN if it would block. */
void mr_perform_now(mr_loop *loop, mr_slot *slot);

/* Performs an operation for the last time and ends it. It was asked to end, and the system has no record of it. Bytes
 * that arrived before its deadline count, even if no poll has seen them yet. */
void mr_perform_last(mr_loop *loop, mr_slot *slot);

/* True if an operation is attempted when it is submitted. It is not if it would overtake others, or if the backend
 * knows that it would block (`is_exhausted`). A wait for a foreign descriptor with MR_TRIED needs no attempt: watching
 * the descriptor reports what is ready already. */
bool mr_is_performed_first(const mr_slot *slot, bool is_exhausted);

/*
 * Takes the result of an operation from the backend. Returns true if the operation has ended: its slot no longer
 * belongs to the backend. Returns false if the backend must carry it out again: the rest of an MR_ALL, an accept whose
 * connection was lost, or an attempt that the kernel gave up because its thread ended. `result` is never -EAGAIN.
 */
bool mr_loop_settle(mr_loop *loop, mr_slot *slot, int64_t result);

/* Ends an operation. From here on its buffer belongs to the caller again. */
void mr_loop_finish(mr_loop *loop, mr_slot *slot, int64_t result);

/* Asks an operation to end with `reason`, or all those of one direction. The first reason stands. */
void mr_loop_end_operation(mr_loop *loop, mr_slot *slot, int reason);
void mr_loop_end_direction(mr_loop *loop, mr_descriptor *descriptor, int direction, int reason);

/* True if a signal, or the kernel after the submitting thread ended, has interrupted the operation. */
bool mr_was_interrupted(int64_t result);

#endif
