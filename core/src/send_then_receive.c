/* send_then_receive.c: see send_then_receive.h. */
#include "send_then_receive.h"
#include "backend.h"
#include "perform.h"

#include <errno.h>

int64_t mr_send_then_receive_attempt(mr_loop *loop, mr_slot *slot)
{
    void *buffer = slot->request.buffer;
    slot->request.buffer = mr_send_then_receive_bytes(&slot->request);
    slot->request.kind = MR_SEND;
    int64_t result = loop->backend->attempt(loop, slot);
    slot->request.kind = MR_SEND_THEN_RECEIVE;
    slot->request.buffer = buffer;
    return result == -EAGAIN ? mr_not_sent(0) : result;
}

/* Turns the operation into its second half. */
static void become_receive(mr_loop *loop, mr_slot *slot)
{
    mr_buffers_free(&loop->buffers, slot->request.buffer);
    slot->request.kind = MR_RECV;
    slot->request.flags |= MR_BORROW;
    slot->request.buffer = NULL;
    slot->request.length = MR_BUFFER_BYTES;
    slot->request.offset = 0;
}

bool mr_send_then_receive_settle(mr_loop *loop, mr_slot *slot, int64_t result)
{
    bool is_sent = result >= 0 && (uint64_t)result == slot->request.length;
    bool is_interrupted = slot->end_reason == -EINTR; /* only the receive can be interrupted, not the send */
    if (is_sent)
        become_receive(loop, slot);
    if (slot->end_reason && (is_sent || !is_interrupted))
        result = slot->end_reason;
    else if (is_sent || mr_was_interrupted(result))
        return false;
    else if (result >= 0)
        result = mr_not_sent(result);
    mr_loop_finish(loop, slot, result);
    return true;
}

void mr_send_then_receive_end(mr_loop *loop, mr_slot *slot, int64_t result)
{
    if (result != -EINVAL && mr_sent_only(result) < 0)
        mr_buffers_free(&loop->buffers, slot->request.buffer);
}

bool mr_send_then_receive_begin(mr_loop *loop, mr_slot *slot)
{
    while (slot->request.kind == MR_SEND_THEN_RECEIVE)
        if (mr_loop_settle(loop, slot, mr_perform_step(loop, slot)))
            return false;
    return true;
}
