/* try.c: attempts at operations, and the one decision whether an operation is attempted. Must not know: system calls. */
#include "backend.h"
#include "send_then_receive.h"

#include <errno.h>

/* A borrowed buffer is taken for the length of the attempt, and kept only if bytes have come. */
static int64_t attempt_with_borrowed(mr_loop *loop, mr_slot *slot)
{
    slot->borrowed = mr_buffers_take(&loop->buffers);
    if (!slot->borrowed)
        return -ENOMEM;
    slot->request.buffer = slot->borrowed->bytes;
    int64_t result = loop->backend->attempt(loop, slot);
    if (result <= 0) {
        mr_buffers_put(&loop->buffers, slot->borrowed);
        slot->borrowed = NULL;
        slot->request.buffer = NULL;
    }
    return result;
}

int64_t mr_loop_attempt(mr_loop *loop, mr_slot *slot)
{
    mr_count(&loop->counters.system_calls, 1);
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        return mr_send_then_receive_attempt(loop, slot);
    return slot->request.flags & MR_BORROW ? attempt_with_borrowed(loop, slot) : loop->backend->attempt(loop, slot);
}

bool mr_loop_try(mr_loop *loop, mr_slot *slot)
{
    for (;;) {
        bool is_sending_first = slot->request.kind == MR_SEND_THEN_RECEIVE;
        int64_t result = mr_loop_attempt(loop, slot);
        if (result == -EAGAIN)
            return false;
        if ((loop->backend->hold && loop->backend->hold(loop, slot, result)) || mr_loop_settle(loop, slot, result))
            return true;
        if (is_sending_first && slot->request.kind == MR_RECV && !mr_has_turn(slot))
            return false;
    }
}

bool mr_is_tried_first(const mr_slot *slot, bool is_exhausted)
{
    mr_kind kind = slot->request.kind;
    if (mr_is_wait(kind))
        return slot->descriptor->generation != 0 || !(slot->request.flags & MR_TRIED);
    return mr_has_trait(kind, MR_NEVER_QUEUES) || (!is_exhausted && mr_has_turn(slot));
}

/* An operation that is not the first of its direction would take what is another's. An accept may be the only one that was
 * told of a connection, of all that wait for one, on other loops and in other processes too. */
static bool is_tried_last(const mr_slot *slot)
{
    mr_kind kind = slot->request.kind;
    if (kind == MR_ACCEPT)
        return true;
    if (slot->end_reason != -ETIMEDOUT || mr_is_on_file(kind))
        return false;
    return mr_is_wait(kind) || mr_has_turn(slot);
}

void mr_loop_conclude(mr_loop *loop, mr_slot *slot)
{
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        mr_send_then_receive_begin(loop, slot);
    else if (!is_tried_last(slot) || !mr_loop_try(loop, slot))
        mr_loop_settle(loop, slot, -ECANCELED);
}

void mr_loop_perform_now(mr_loop *loop, mr_slot *slot)
{
    if (!mr_loop_try(loop, slot))
        mr_loop_finish(loop, slot, -EAGAIN);
}
