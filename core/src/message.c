/* message.c: sends messages to a loop's mailbox, and carries them out on its owner. Must not know: system calls. */
#include "message.h"
#include "closing.h"
#include "deadline.h"
#include "descriptor.h"
#include "perform.h"
#include "shutdown.h"

#include <errno.h>
#include <stdlib.h>

void mr_loop_post(mr_loop *loop, const mr_message *message)
{
    mr_mailbox_post(&loop->mailbox, message);
    mr_loop_wake(loop);
}

void mr_loop_start_remote(mr_loop *loop, mr_token token, const mr_request *request)
{
    mr_loop_post(loop, &(mr_message){.kind = MR_MESSAGE_START, .token = token, .request = *request});
}

void mr_loop_cancel_remote(mr_loop *loop, mr_token token)
{
    mr_loop_post(loop, &(mr_message){.kind = MR_MESSAGE_CANCEL, .token = token});
}

void mr_loop_update_remote(mr_loop *loop, mr_token token, uint64_t deadline_ns)
{
    mr_loop_post(loop, &(mr_message){.kind = MR_MESSAGE_UPDATE, .token = token, .deadline_ns = deadline_ns});
}

void mr_loop_release_remote(mr_loop *loop, mr_token token)
{
    mr_loop_post(loop, &(mr_message){.kind = MR_MESSAGE_RELEASE, .token = token});
}

static void interrupt_operation(mr_loop *loop, mr_slot *slot)
{
    if (mr_has_trait(slot->request.kind, MR_IS_INTERRUPTED))
        mr_loop_end_operation(loop, slot, -EINTR);
    else if (slot->request.kind == MR_SEND_THEN_RECEIVE && !slot->end_reason)
        slot->end_reason =
            -EINTR; /* it is sending, which does not wait; mr_send_then_receive_settle ends it afterwards */
}

static void interrupt(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = mr_descriptor_joined(loop, handle);
    if (!descriptor)
        return;
    for (mr_slot *slot = descriptor->first[MR_READING], *next; slot; slot = next) {
        next = slot->next;
        interrupt_operation(loop, slot);
    }
}

/* Arms the timers of a handle whose deadline is now earlier. */
static void watch_earlier_deadline(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = mr_descriptor_joined(loop, handle);
    if (!descriptor)
        return;
    mr_descriptor_note_deadlines(descriptor);
    mr_deadline_watch(loop, descriptor, MR_READING);
    mr_deadline_watch(loop, descriptor, MR_WRITING);
}

void mr_loop_act_on(mr_loop *loop, const mr_message *message)
{
    switch (message->kind) {
    case MR_MESSAGE_START:
        mr_loop_start(loop, message->token, &message->request);
        break;
    case MR_MESSAGE_CANCEL:
        mr_loop_cancel_here(loop, message->token);
        break;
    case MR_MESSAGE_UPDATE:
        mr_loop_update_here(loop, message->token, message->deadline_ns);
        break;
    case MR_MESSAGE_RELEASE:
        mr_loop_release(loop, message->token);
        break;
    case MR_MESSAGE_DEADLINE:
        watch_earlier_deadline(loop, message->handle);
        break;
    case MR_MESSAGE_INTERRUPT:
        interrupt(loop, message->handle);
        break;
    case MR_MESSAGE_SHUT:
        mr_shutdown_end(loop, message->handle, (int)message->request.length);
        break;
    case MR_MESSAGE_DETACH:
        mr_closing_detach(loop, message->handle);
        break;
    case MR_MESSAGE_DETACHED:
        mr_closing_complete(loop, message->token);
        break;
    }
}

void mr_loop_take_messages(mr_loop *loop)
{
    mr_message *message = mr_mailbox_take(&loop->mailbox);
    while (message) {
        mr_message *next = message->next;
        mr_loop_act_on(loop, message);
        mr_mailbox_free(message);
        message = next;
    }
}
