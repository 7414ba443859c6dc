/* perform.c: see perform.h. Must not know: system calls. */
#include "perform.h"
#include "attempt.h"
#include "backend.h"
#include "closing.h"
#include "deadline.h"
#include "millrace_check.h"
#include "request.h"
#include "send_then_receive.h"

#include <errno.h>
#include <stdlib.h>

enum { BACKOFF_FIRST_MS = 10, BACKOFF_LAST_MS = 200 };

/* -------------------------------------------------------------------------------------------------- performing --- */

/* Attempts a receive with a borrowed buffer, which is kept only if bytes have arrived. */
static int64_t attempt_with_borrowed(mr_loop *loop, mr_slot *slot)
{
    slot->borrowed = mr_buffers_alloc(&loop->buffers);
    if (!slot->borrowed)
        return -ENOMEM;
    slot->request.buffer = slot->borrowed->bytes;
    int64_t result = loop->backend->attempt(loop, slot);
    if (result <= 0) {
        mr_buffers_free(&loop->buffers, slot->borrowed);
        slot->borrowed = NULL;
        slot->request.buffer = NULL;
    }
    return result;
}

int64_t mr_perform_step(mr_loop *loop, mr_slot *slot)
{
    mr_count(&loop->counters.system_calls, 1);
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        return mr_send_then_receive_attempt(loop, slot);
    return slot->request.flags & MR_BORROW ? attempt_with_borrowed(loop, slot) : loop->backend->attempt(loop, slot);
}

bool mr_perform(mr_loop *loop, mr_slot *slot)
{
    for (;;) {
        bool is_sending_first = slot->request.kind == MR_SEND_THEN_RECEIVE;
        int64_t result = mr_perform_step(loop, slot);
        if (result == -EAGAIN)
            return false;
        if ((loop->backend->delay && loop->backend->delay(loop, slot, result)) || mr_loop_settle(loop, slot, result))
            return true;
        if (is_sending_first && slot->request.kind == MR_RECV && !mr_has_turn(slot))
            return false;
    }
}

bool mr_is_performed_first(const mr_slot *slot, bool is_exhausted)
{
    mr_kind kind = slot->request.kind;
    if (mr_is_wait(kind))
        return slot->descriptor->generation != 0 || !(slot->request.flags & MR_TRIED);
    return mr_has_trait(kind, MR_NEVER_QUEUES) || (!is_exhausted && mr_has_turn(slot));
}

void mr_perform_now(mr_loop *loop, mr_slot *slot)
{
    if (!mr_perform(loop, slot))
        mr_loop_finish(loop, slot, -EAGAIN);
}

/* ----------------------------------------------------------------------------------------- what a result means --- */

void mr_loop_finish(mr_loop *loop, mr_slot *slot, int64_t result) /* NOLINT(misc-no-recursion): see closing.c */
{
    mr_descriptor *descriptor = slot->descriptor;
    MR_CHECK(slot->state == MR_SLOT_PENDING || slot->state == MR_SLOT_BACKOFF); /* it must end only once */
    slot->result = result;
    slot->state = MR_SLOT_COMPLETED;
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        mr_send_then_receive_end(loop, slot, result);
    if (slot->borrowed)
        slot->borrowed->length = slot->transferred;
    if (slot->backend_memory) {
        free(slot->backend_memory);
        slot->backend_memory = NULL;
    }
    mr_timer_disarm(&loop->wheel, &slot->timer);
    if (slot != loop->submitting)
        mr_slot_queue_push(&loop->completed, slot);
    if (!descriptor)
        return;
    mr_descriptor_unlink(slot);
    if (descriptor->detaching)
        mr_closing_note_end(loop, descriptor);
}

/* Pauses an operation after an error that passes by itself. Its timer fires at the end of the pause or at the deadline,
 * whichever is first. */
static void back_off(mr_loop *loop, mr_slot *slot)
{
    uint64_t until_ns;
    mr_deadline_fix(loop, slot);
    slot->backoff_ms = (uint16_t)(slot->backoff_ms ? slot->backoff_ms * 2 : BACKOFF_FIRST_MS);
    if (slot->backoff_ms > BACKOFF_LAST_MS)
        slot->backoff_ms = BACKOFF_LAST_MS;
    until_ns = mr_loop_now_ns(loop) + slot->backoff_ms * MR_NS_PER_MS;
    if (slot->request.deadline_ns != MR_NO_DEADLINE && slot->request.deadline_ns < until_ns)
        until_ns = slot->request.deadline_ns;
    slot->state = MR_SLOT_BACKOFF;
    mr_timer_arm(&loop->wheel, &slot->timer, until_ns);
    mr_count(&loop->counters.resubmissions, 1);
}

static bool passes_by_itself(const mr_slot *slot, int64_t result)
{
    if (slot->request.kind == MR_CONNECT)
        return result == -MR_QUEUE_FULL;
    return slot->request.kind == MR_ACCEPT &&
           (result == -EMFILE || result == -ENFILE || result == -ENOBUFS || result == -ENOMEM);
}

/* Errors that concern one queued connection, not the listener (accept(2), "Error handling"). */
static bool is_lost_connection(const mr_slot *slot, int64_t result)
{
    if (slot->request.kind != MR_ACCEPT)
        return false;
    switch (-result) {
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
#ifdef EHOSTDOWN
    case EHOSTDOWN:
#endif
#ifdef ENONET
    case ENONET:
#endif
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

/* When a thread exits, the kernel cancels the operations that it submitted: an ECANCELED without a cancellation of
 * ours. */
bool mr_was_interrupted(int64_t result)
{
    return result == -ECANCELED || result == -EINTR;
}

/* True if a write of some bytes wrote none, but did not fail. A caller that repeats until all is written would never
 * end, and one that does not check would take it for success. write(2) does not say when that happens; some devices and
 * file systems do it. */
static bool has_written_nothing(const mr_slot *slot, int64_t result)
{
    return result == 0 && mr_has_trait(slot->request.kind, MR_WRITES) && mr_wants_bytes(&slot->request);
}

/* The result of an operation that was asked to end. A wait succeeds if its direction was shut down, because the
 * descriptor is ready then. */
static int64_t end_of(const mr_slot *slot)
{
    return mr_is_wait(slot->request.kind) && slot->end_reason == -EPIPE ? 0 : slot->end_reason;
}

bool mr_loop_settle(mr_loop *loop, mr_slot *slot, int64_t result)
{
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        return mr_send_then_receive_settle(loop, slot, result);
    if (has_written_nothing(slot, result))
        result = -EIO;
    if (result > 0 && mr_has_trait(slot->request.kind, MR_MOVES_BYTES)) {
        slot->transferred += (uint64_t)result;
        bool wants_more = (slot->request.flags & MR_ALL) && !mr_advance(&slot->request, (uint64_t)result);
        if (wants_more && !slot->end_reason)
            return false;
        result = wants_more ? slot->end_reason : (int64_t)slot->transferred;
    } else if (mr_was_interrupted(result)) {
        if (!slot->end_reason) {
            mr_count(&loop->counters.resubmissions, 1);
            return false;
        }
        result = end_of(slot);
    } else if (is_lost_connection(slot, result)) {
        if (!slot->end_reason)
            return false;
        result = slot->end_reason;
    } else if (passes_by_itself(slot, result)) {
        if (!slot->end_reason && !(slot->request.flags & MR_NOW)) {
            back_off(loop, slot);
            return true;
        }
        result = slot->end_reason ? slot->end_reason : result == -MR_QUEUE_FULL ? -EAGAIN : result;
    }
    mr_loop_finish(loop, slot, result);
    return true;
}

/* ---------------------------------------------------------------------------------- ending on request --- */

/* Whether to try an operation a last time. One that is not the first of its direction must not: it would take another's
 * bytes. An accept must be tried always: of all that wait, on other loops and in other processes too, it may be the
 * only one that the kernel has woken for a connection. */
static bool is_tried_last(const mr_slot *slot)
{
    mr_kind kind = slot->request.kind;
    if (kind == MR_ACCEPT)
        return true;
    if (slot->end_reason != -ETIMEDOUT || mr_is_on_file(kind))
        return false;
    return mr_is_wait(kind) || mr_has_turn(slot);
}

void mr_perform_last(mr_loop *loop, mr_slot *slot)
{
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        mr_send_then_receive_begin(loop, slot);
    else if (!is_tried_last(slot) || !mr_perform(loop, slot))
        mr_loop_settle(loop, slot, -ECANCELED);
}

void mr_loop_end_operation(mr_loop *loop, mr_slot *slot, int reason)
{
    if (slot->state == MR_SLOT_BACKOFF) {
        slot->state = MR_SLOT_PENDING;
        slot->end_reason = reason;
        mr_perform_last(loop, slot);
    } else if (slot->state == MR_SLOT_PENDING && slot->request.kind != MR_CLOSE && !slot->end_reason) {
        slot->end_reason = reason;
        loop->backend->cancel(loop, slot);
    }
}

void mr_loop_end_direction(mr_loop *loop, mr_descriptor *descriptor, int direction, int reason)
{
    for (mr_slot *slot = descriptor->first[direction], *next; slot; slot = next) {
        next = slot->next;
        mr_loop_end_operation(loop, slot, reason);
    }
}
