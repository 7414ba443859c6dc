/* closing.c: see closing.h. Must not know: system calls. */
#include "closing.h"
#include "backend.h"
#include "message.h"
#include "millrace_check.h"
#include "perform.h"

#include <errno.h>

static mr_loop *loop_of_token(mr_group *group, mr_token token)
{
    return atomic_load(&group->loops[mr_token_loop(token)]);
}

/* NOLINTBEGIN(misc-no-recursion): MR_CLOSE is not linked to a descriptor, so completing it never releases one, and the
 * recursion stops here. */

void mr_closing_complete(mr_loop *loop, mr_token closer)
{
    mr_slot *slot = mr_loop_find(loop, closer);
    MR_CHECK(slot && slot->request.kind == MR_CLOSE && slot->state == MR_SLOT_PENDING);
    mr_count(&loop->counters.system_calls, 1);
    mr_handle_finish_close(&loop->group->handles, slot->request.handle);
    mr_loop_finish(loop, slot, loop->backend->close(loop, mr_slot_number(slot)));
}

static void announce(mr_group *group, mr_token closer)
{
    mr_loop_post(loop_of_token(group, closer), &(mr_message){.kind = MR_MESSAGE_DETACHED, .token = closer});
}

static void release_handle(mr_loop *loop, mr_handle handle)
{
    mr_token closer;
    if (!mr_handle_release(&loop->group->handles, handle, &closer))
        return;
    if (mr_token_loop(closer) == loop->index)
        mr_closing_complete(loop, closer);
    else
        announce(loop->group, closer);
}

static void finish_detach(mr_loop *loop, mr_descriptor *descriptor)
{
    mr_handle handle = mr_handle_make(descriptor->number, descriptor->generation);
    MR_CHECK(mr_descriptor_is_idle(
        descriptor)); /* otherwise an operation would continue on a later descriptor with this number */
    mr_timer_disarm(&loop->wheel, &descriptor->timers[MR_READING]);
    mr_timer_disarm(&loop->wheel, &descriptor->timers[MR_WRITING]);
    loop->backend->detach(loop, descriptor);
    mr_descriptor_forget(descriptor);
    release_handle(loop, handle);
}

void mr_closing_note_end(mr_loop *loop, mr_descriptor *descriptor)
{
    if (mr_descriptor_is_idle(descriptor))
        finish_detach(loop, descriptor);
}

/* NOLINTEND(misc-no-recursion) */

void mr_closing_detach(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = mr_loop_descriptor(loop, mr_handle_descriptor(handle));
    if (!descriptor || descriptor->generation != mr_handle_generation(handle)) {
        release_handle(loop, handle);
        return;
    }
    /* Set `detaching` only after this loop: ending an operation may settle it at once, and the last one would then free
     * the list that the loop walks. */
    for (int direction = 0; direction < MR_DIRECTIONS; direction++)
        mr_loop_end_direction(loop, descriptor, direction, -EBADF);
    descriptor->detaching = true;
    mr_closing_note_end(loop, descriptor);
}

void mr_closing_begin(mr_loop *loop, mr_slot *slot)
{
    mr_group *group = loop->group;
    mr_handle handle = slot->request.handle;
    uint64_t joined;
    int error = mr_handle_begin_close(&group->handles, handle, slot->token, &joined);
    if (error) {
        mr_loop_finish(loop, slot, error);
        return;
    }
    mr_loop *others[MR_LOOPS_MAX];
    unsigned count = mr_group_other_loops(group, joined, loop, others);
    mr_handle_add_holders(&group->handles, handle, count);
    for (unsigned i = 0; i < count; i++)
        mr_loop_post(others[i], &(mr_message){.kind = MR_MESSAGE_DETACH, .handle = handle});
    mr_closing_detach(loop, handle);
}

int mr_group_hold(mr_group *group, mr_handle handle)
{
    return mr_handle_hold(&group->handles, handle);
}

void mr_group_release(mr_group *group, mr_handle handle)
{
    mr_token closer;
    if (mr_handle_release(&group->handles, handle, &closer))
        announce(group, closer);
}
