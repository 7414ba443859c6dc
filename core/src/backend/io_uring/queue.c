/* queue.c: submits entries to the kernel, and queues operations while the ring is full (the backlog). */
#include "prepare.h"
#include "queue.h"
#include "ring.h"

#include <sys/syscall.h>
#include <unistd.h>

/* The first submission enables the ring, and so ties it to the calling thread. Before, it is not known which thread
 * owns the loop. */
static void enable(mr_loop *loop, mr_ring *state)
{
    mr_count(&loop->counters.system_calls, 1);
    /* A system call, because the shared library of liburing 2.3 does not export io_uring_enable_rings. */
    syscall(SYS_io_uring_register, state->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    state->is_enabled = true;
}

void mr_ring_flush(mr_loop *loop, mr_ring *state)
{
    if (!state->unsubmitted)
        return;
    if (!state->is_enabled)
        enable(loop, state);
    mr_count(&loop->counters.system_calls, 1);
    /* EBUSY and EAGAIN mean that completions must be reaped first, EINTR that a signal came. The entries stay in the
     * ring, and the next poll reaps completions and submits them. */
    int submitted = state->is_tied ? io_uring_submit_and_get_events(&state->ring) : io_uring_submit(&state->ring);
    if (submitted >= 0)
        state->unsubmitted = io_uring_sq_ready(&state->ring);
}

struct io_uring_sqe *mr_ring_next_entry(mr_loop *loop, mr_ring *state)
{
    if (state->unsubmitted >= BATCH)
        mr_ring_flush(loop, state);
    struct io_uring_sqe *entry = io_uring_get_sqe(&state->ring);
    if (entry)
        state->unsubmitted++;
    return entry;
}

void mr_ring_push_backlog(mr_ring *state, mr_slot *slot, mr_ring_queue purpose)
{
    mr_ring_slot_of(slot)->queue = purpose;
    mr_slot_queue_push(&state->backlog, slot);
}

void mr_ring_enqueue(mr_loop *loop, mr_slot *slot)
{
    mr_ring *state = mr_ring_of(loop);
    struct io_uring_sqe *entry = state->backlog.first ? NULL : mr_ring_next_entry(loop, state);
    if (entry)
        mr_ring_prepare(state, entry, slot);
    else
        mr_ring_push_backlog(state, slot, AWAITS_SUBMISSION);
}

void mr_ring_leave_backlog(mr_ring *state, mr_slot *slot)
{
    mr_slot_queue_remove(&state->backlog, slot);
    mr_ring_slot_of(slot)->queue = IN_NO_QUEUE;
}

void mr_ring_prepare_cancel(struct io_uring_sqe *entry, mr_slot *slot)
{
    io_uring_prep_cancel64(entry, slot->token, 0);
    entry->user_data = slot->token | TAG_CANCEL;
}

void mr_ring_submit_backlog(mr_loop *loop, mr_ring *state)
{
    while (state->backlog.first) {
        struct io_uring_sqe *entry = mr_ring_next_entry(loop, state);
        if (!entry)
            return;
        mr_slot *slot = state->backlog.first;
        bool is_cancel = mr_ring_slot_of(slot)->queue == AWAITS_CANCELLATION;
        mr_ring_leave_backlog(state, slot);
        if (is_cancel)
            mr_ring_prepare_cancel(entry, slot);
        else
            mr_ring_prepare(state, entry, slot);
    }
}
