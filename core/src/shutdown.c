/* shutdown.c: see shutdown.h. */
#include "shutdown.h"
#include "backend.h"
#include "descriptor.h"
#include "message.h"
#include "perform.h"

#include <errno.h>

/* Only operations on a handle: the system itself answers waits on foreign descriptors. */
static bool is_ended_by_shutdown(const mr_slot *slot)
{
    return mr_when_shut(slot->request.kind, MR_WRITING) == -EPIPE && mr_handle_generation(slot->request.handle) != 0;
}

/* Ends sends and waits. A poll of Linux for writability does not notice that its Unix socket was shut down for
 * sending. */
static void end_sends(mr_loop *loop, mr_descriptor *descriptor)
{
    for (mr_slot *slot = descriptor->first[MR_WRITING], *next; slot; slot = next) {
        next = slot->next;
        if (is_ended_by_shutdown(slot))
            mr_loop_end_operation(loop, slot, -EPIPE);
    }
}

void mr_shutdown_end(mr_loop *loop, mr_handle handle, int how)
{
    mr_descriptor *descriptor = mr_descriptor_joined(loop, handle);
    bool is_for_reading = how != SHUT_WR, is_for_writing = how != SHUT_RD;
    if (!descriptor)
        return;
    if (!loop->backend->end_shut) {
        if (is_for_writing)
            end_sends(loop, descriptor);
        return;
    }
    if (is_for_reading)
        loop->backend->end_shut(loop, descriptor, MR_READING);
    if (is_for_writing)
        loop->backend->end_shut(loop, descriptor, MR_WRITING);
}

void mr_shutdown_perform(mr_loop *loop, mr_slot *slot)
{
    mr_message message = {.kind = MR_MESSAGE_SHUT, .handle = slot->request.handle, .request = slot->request};
    mr_loop *others[MR_LOOPS_MAX];
    uint64_t joined;
    loop->backend->flush(loop); /* queued sends go first */
    mr_perform_now(loop, slot);
    if (slot->result < 0 || mr_handle_loops(&loop->group->handles, message.handle, &joined) < 0)
        return;
    unsigned count = mr_group_other_loops(loop->group, joined, loop, others);
    for (unsigned i = 0; i < count; i++)
        mr_loop_post(others[i], &message);
    mr_shutdown_end(loop, message.handle, (int)message.request.length);
}
