/* message.c: what loops and other threads ask of a loop's owner, through its mailbox. Must not know: system calls. */
#include "closing.h"
#include "deadline.h"
#include "descriptor.h"
#include "shutdown.h"

#include <errno.h>
#include <stdlib.h>

void mr_loop_post(mr_loop *loop, const mr_letter *letter)
{
    mr_mailbox_post(&loop->mailbox, letter);
    mr_loop_wake(loop);
}

void mr_loop_start_remote(mr_loop *loop, mr_token token, const mr_request *request)
{
    mr_loop_post(loop, &(mr_letter){.kind = MR_LETTER_START, .token = token, .request = *request});
}

void mr_loop_cancel_remote(mr_loop *loop, mr_token token)
{
    mr_loop_post(loop, &(mr_letter){.kind = MR_LETTER_CANCEL, .token = token});
}

void mr_loop_update_remote(mr_loop *loop, mr_token token, uint64_t deadline_ns)
{
    mr_loop_post(loop, &(mr_letter){.kind = MR_LETTER_UPDATE, .token = token, .deadline_ns = deadline_ns});
}

void mr_loop_release_remote(mr_loop *loop, mr_token token)
{
    mr_loop_post(loop, &(mr_letter){.kind = MR_LETTER_RELEASE, .token = token});
}

static void recall_operation(mr_loop *loop, mr_slot *slot)
{
    if (mr_has_trait(slot->request.kind, MR_IS_RECALLED))
        mr_loop_end_operation(loop, slot, -EINTR);
    else if (slot->request.kind == MR_SEND_THEN_RECEIVE && !slot->end_reason)
        slot->end_reason =
            -EINTR; /* it is sending, which takes no time; mr_send_then_receive_settle sees to the rest */
}

static void recall(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = mr_descriptor_joined(loop, handle);
    if (!descriptor)
        return;
    for (mr_slot *slot = descriptor->first[MR_READING], *next; slot; slot = next) {
        next = slot->next;
        recall_operation(loop, slot);
    }
}

/* A deadline of a handle has become earlier. */
static void watch_earlier_deadline(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = mr_descriptor_joined(loop, handle);
    if (!descriptor)
        return;
    mr_descriptor_note_deadlines(descriptor);
    mr_deadline_watch(loop, descriptor, MR_READING);
    mr_deadline_watch(loop, descriptor, MR_WRITING);
}

void mr_loop_open_letter(mr_loop *loop, const mr_letter *letter)
{
    switch (letter->kind) {
    case MR_LETTER_START:
        mr_loop_start(loop, letter->token, &letter->request);
        break;
    case MR_LETTER_CANCEL:
        mr_loop_cancel_here(loop, letter->token);
        break;
    case MR_LETTER_UPDATE:
        mr_loop_update_here(loop, letter->token, letter->deadline_ns);
        break;
    case MR_LETTER_RELEASE:
        mr_loop_release(loop, letter->token);
        break;
    case MR_LETTER_DEADLINE:
        watch_earlier_deadline(loop, letter->handle);
        break;
    case MR_LETTER_RECALL:
        recall(loop, letter->handle);
        break;
    case MR_LETTER_SHUT:
        mr_shutdown_end(loop, letter->handle, (int)letter->request.length);
        break;
    case MR_LETTER_DETACH:
        mr_closing_detach(loop, letter->handle);
        break;
    case MR_LETTER_DETACHED:
        mr_closing_complete(loop, letter->token);
        break;
    }
}

void mr_loop_open_letters(mr_loop *loop)
{
    mr_letter *letter = mr_mailbox_take(&loop->mailbox);
    while (letter) {
        mr_letter *next = letter->next;
        mr_loop_open_letter(loop, letter);
        free(letter);
        letter = next;
    }
}
