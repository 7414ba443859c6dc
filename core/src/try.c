/* try.c: attempts at operations, and the one decision whether an operation is attempted. Must not know: system calls. */
#include "backend.h"
#include "send_then_receive.h"

#include <errno.h>

/* A lent buffer is taken for the length of the attempt, and kept only if bytes have come. */
static int64_t attempt_with_lent(mr_loop *loop, mr_slot *slot)
{
    slot->lent = mr_lender_take(&loop->lender);
    if (!slot->lent)
        return -ENOMEM;
    slot->request.buffer = slot->lent->bytes;
    int64_t result = loop->backend->attempt(loop, slot);
    if (result <= 0) {
        mr_lender_put(&loop->lender, slot->lent);
        slot->lent = NULL;
        slot->request.buffer = NULL;
    }
    return result;
}

int64_t mr_loop_attempt(mr_loop *loop, mr_slot *slot)
{
    mr_count(&loop->counters.system_calls, 1);
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        return mr_send_then_receive_attempt(loop, slot);
    return slot->request.flags & MR_BORROW ? attempt_with_lent(loop, slot) : loop->backend->attempt(loop, slot);
}

bool mr_loop_is_tried_last(const mr_slot *slot)
{
    mr_kind kind = slot->request.kind;
    if (slot->end_reason != -ETIMEDOUT || kind == MR_SEND_THEN_RECEIVE || mr_is_on_file(kind))
        return false;
    return mr_is_wait(kind) || mr_has_turn(slot);
}

void mr_loop_perform_now(mr_loop *loop, mr_slot *slot)
{
    int64_t result;
    do {
        result = mr_loop_attempt(loop, slot);
        if (result == -EAGAIN || mr_passes_by_itself(slot, result)) {
            mr_loop_finish(loop, slot, result == -MR_QUEUE_FULL ? -EAGAIN : result);
            return;
        }
    } while (!mr_loop_settle(loop, slot, result));
}
