/*
 * io_uring.c: the backend on Linux's completion interface, through liburing.
 *
 * Entries collect in the ring and go to the kernel once per poll. Most owners change threads from call to call, so
 * their rings are opened without the flags that tie a ring to one thread (SINGLE_ISSUER, DEFER_TASKRUN). When a thread
 * ends, the kernel cancels the operations it submitted; mr_loop_settle then submits them again. If the owner is one
 * thread (mr_group_create_with_owned_loops), the ring is tied to it, and delivers completions when that thread polls.
 */
#include "../../attempt.h"
#include "../../clock.h"
#include "../../eventfd.h"
#include "../../perform.h"
#include "buffers.h"
#include "edges.h"
#include "prepare.h"
#include "queue.h"
#include "ring.h"
#include "io_uring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static bool has_positions(mr_loop *loop, mr_descriptor *descriptor)
{
    if (!mr_ring_descriptor_of(descriptor)->has_positions)
        mr_ring_descriptor_of(descriptor)->has_positions = mr_uring_has_positions(loop, descriptor->number);
    return mr_ring_descriptor_of(descriptor)->has_positions;
}

void mr_ring_submit(mr_loop *loop, mr_slot *slot)
{
    mr_kind kind = slot->request.kind;
    if ((kind == MR_READ_FILE || kind == MR_WRITE_FILE) && !has_positions(loop, slot->descriptor)) {
        mr_loop_settle(loop, slot, -ESPIPE);
        return;
    }
    if (mr_ring_is_attempted(mr_ring_of(loop), slot) && mr_perform(loop, slot))
        return;
    if (mr_has_trait(kind, MR_HAS_VECTOR) && !slot->backend_memory) {
        slot->backend_memory = malloc(sizeof(struct msghdr));
        if (!slot->backend_memory) {
            mr_loop_settle(loop, slot, -ENOMEM);
            return;
        }
    }
    mr_ring_enqueue(loop, slot);
}

static void cancel(mr_loop *loop, mr_slot *slot)
{
    mr_ring *state = mr_ring_of(loop);
    if (mr_ring_slot_of(slot)->queue == AWAITS_EDGE) {
        mr_ring_leave_edges(state, slot);
        mr_perform_last(loop, slot);
        return;
    }
    if (mr_ring_slot_of(slot)->queue == AWAITS_SUBMISSION) {
        mr_ring_leave_backlog(state, slot);
        mr_perform_last(loop, slot);
        return;
    }
    struct io_uring_sqe *entry = mr_ring_next_entry(loop, state);
    if (entry)
        mr_ring_prepare_cancel(entry, slot);
    else
        mr_ring_push_backlog(state, slot, AWAITS_CANCELLATION);
}

/* ------------------------------------------------------------------------------------------------------ polling --- */

static void arm_wake(mr_loop *loop, mr_ring *state)
{
    struct io_uring_sqe *entry = state->wake_armed ? NULL : mr_ring_next_entry(loop, state);
    if (!entry)
        return;
    io_uring_prep_poll_add(entry, loop->wake_descriptor, POLLIN);
    entry->user_data = TAG_WAKE;
    state->wake_armed = true;
}

static void note_wake(mr_loop *loop, mr_ring *state)
{
    mr_eventfd_drain(loop); /* there is nothing to read if the kernel cancelled the poll because its thread ended */
    state->wake_armed = false;
}

/* Converts the kernel's result to the operation's; -EAGAIN: it must be submitted again. */
static int64_t interpret(mr_loop *loop, mr_slot *slot, int32_t result)
{
    if (mr_is_on_file(slot->request.kind))
        return mr_uring_result_on_file(loop, slot, result, &mr_ring_slot_of(slot)->faults);
    if (result > 0 && mr_is_wait(slot->request.kind)) /* a poll's result is a mask */
        return mr_ring_waits_for_edge(mr_ring_of(loop), slot, result) ? -EAGAIN : 0;
    if (result == -EAGAIN && slot->request.kind == MR_SEND_THEN_RECEIVE)
        return mr_not_sent(0);
    return result;
}

/* The kernel has chosen a buffer. Some kernels report one even if it has no bytes. */
static void take_chosen_buffer(mr_loop *loop, mr_slot *slot, const struct io_uring_cqe *entry)
{
    mr_buffer *chosen = mr_ring_take_chosen(loop, mr_ring_of(loop), entry);
    if (slot && entry->res > 0)
        slot->borrowed = chosen;
    else
        mr_buffers_free(&loop->buffers, chosen);
}

/*
 * The kernel had no buffer left for a receive, so it is unknown whether bytes are there. If the receive were submitted
 * again, other connections might again take the buffers before it; with ten thousand connections some waited for
 * seconds. So it is attempted with a buffer of the loop. Returns true if that ended it; otherwise it will wait before
 * it takes a buffer.
 */
static bool receive_without_kernel_buffer(mr_loop *loop, mr_slot *slot)
{
    mr_ring_add_buffer(loop, mr_ring_of(loop));
    if (mr_perform(loop, slot))
        return true;
    mr_ring_descriptor_of(slot->descriptor)->exhausted = true;
    return false;
}

/* True if the socket stays ready without data. An operation that is submitted again and again on it would occupy the
 * processor. */
static bool is_shut(mr_loop *loop, const mr_slot *slot)
{
    struct pollfd entry = {.fd = mr_slot_number(slot), .events = POLLRDHUP};
    if (mr_when_shut(slot->request.kind, MR_READING) == -EAGAIN)
        return false;
    mr_count(&loop->counters.system_calls, 1);
    return poll(&entry, 1, 0) > 0 && (entry.revents & POLLRDHUP);
}

/* Handles an operation that the ring cannot simply submit again. Returns true if it has ended or waits for an edge. */
static bool ends_or_waits_for_edge(mr_loop *loop, mr_slot *slot, int32_t answer)
{
    if (slot->end_reason) /* its cancellation is over already: submitted again, the operation would never end */
        return mr_loop_settle(loop, slot, -ECANCELED);
    if (is_shut(loop, slot)) /* bytes from before the end are received first */
        return mr_perform(loop, slot) || mr_loop_settle(loop, slot, mr_when_shut(slot->request.kind, MR_READING));
    return mr_ring_waits_for_edge(mr_ring_of(loop), slot, answer) && mr_ring_wait_for_edge(loop, slot);
}

/* Acts on the kernel's result. Returns true if the operation has ended or waits for an edge; otherwise it must be
 * submitted again. */
static bool apply(mr_loop *loop, mr_slot *slot, int32_t answer)
{
    int64_t result;
    if (answer >= 0 && mr_ring_is_attempted(mr_ring_of(loop), slot)) {
        if (mr_perform(loop, slot))
            return true;
        result = -EAGAIN;
    } else if (mr_ring_slot_of(slot)->awaits_writable && answer >= 0) {
        mr_ring_slot_of(slot)->awaits_writable = false;
        result = -EAGAIN;
    } else if (answer == -EAGAIN && mr_has_trait(slot->request.kind, MR_SENDS)) {
        mr_ring_slot_of(slot)->awaits_writable = true;
        result = -EAGAIN;
    } else if (answer == -ENOBUFS && mr_ring_is_borrowing(slot)) {
        if (receive_without_kernel_buffer(loop, slot))
            return true;
        result = -EAGAIN;
    } else if (answer == -ECANCELED && slot->end_reason) {
        /* A tied ring delivers a few completions at a time (IO_LOCAL_TW_DEFAULT_MAX), so an operation that was ready
         * may have been cancelled. */
        mr_perform_last(loop, slot);
        return true;
    } else {
        result = interpret(loop, slot, answer);
    }
    return result == -EAGAIN ? ends_or_waits_for_edge(loop, slot, answer) : mr_loop_settle(loop, slot, result);
}

static void complete(mr_loop *loop, const struct io_uring_cqe *entry)
{
    mr_ring *state = mr_ring_of(loop);
    mr_slot *slot = mr_loop_find(loop, entry->user_data);
    if (slot && slot->state != MR_SLOT_PENDING)
        slot = NULL;
    if (entry->flags & IORING_CQE_F_BUFFER)
        take_chosen_buffer(loop, slot, entry);
    if (!slot)
        return;
    if (mr_ring_slot_of(slot)->queue) /* it ended by itself while its cancellation was in the backlog */
        mr_ring_leave_backlog(state, slot);
    if (slot->request.kind == MR_RECV)
        mr_ring_descriptor_of(slot->descriptor)->exhausted =
            entry->res > 0 && !(entry->flags & IORING_CQE_F_SOCK_NONEMPTY);
    if (!apply(loop, slot, entry->res))
        mr_ring_enqueue(loop, slot);
}

/*
 * ENOENT: the operation has ended, or the kernel did not find it because it was between two of its lists (a poll that
 * has fired is task work, after which the receive may wait again). EALREADY: an operation on a file that cannot be
 * stopped.
 */
static void note_cancel(mr_loop *loop, const struct io_uring_cqe *entry)
{
    mr_slot *slot = entry->res == -ENOENT ? mr_loop_find(loop, entry->user_data & ~TAG_CANCEL) : NULL;
    if (slot && slot->state == MR_SLOT_PENDING && slot->end_reason && !mr_ring_slot_of(slot)->queue)
        cancel(loop, slot);
}

/* True if a tied ring has completions that the owner must ask for. */
static bool has_undelivered(const mr_ring *state)
{
    unsigned flags = __atomic_load_n(state->ring.sq.kflags, __ATOMIC_RELAXED);
    return state->is_tied && (flags & IORING_SQ_TASKRUN);
}

static void deliver_completions(mr_loop *loop, mr_ring *state)
{
    if (!has_undelivered(state))
        return;
    mr_count(&loop->counters.system_calls, 1);
    io_uring_get_events(&state->ring);
}

static bool reap(mr_loop *loop, mr_ring *state)
{
    struct io_uring_cqe *entries[REAP];
    unsigned count = io_uring_peek_batch_cqe(&state->ring, entries, REAP);
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_cqe entry = *entries[i];
        if (entry.user_data == TAG_WAKE)
            note_wake(loop, state);
        else if (entry.user_data == TAG_EDGES)
            mr_ring_note_edges(loop, state);
        else if (entry.user_data & TAG_CANCEL)
            note_cancel(loop, &entry);
        else
            complete(loop, &entry);
    }
    io_uring_cq_advance(&state->ring, count);
    return count > 0;
}

/* The kernel may refuse because it lacks memory, or because completions must be reaped first. */
static bool flush(mr_loop *loop)
{
    mr_ring *state = mr_ring_of(loop);
    mr_ring_submit_backlog(loop, state);
    arm_wake(loop, state);
    mr_ring_arm_edges(loop, state);
    mr_ring_flush(loop, state);
    return !state->unsubmitted && !state->backlog.first;
}

static void poll_ring(mr_loop *loop)
{
    flush(loop);
    deliver_completions(loop, mr_ring_of(loop));
    reap(loop, mr_ring_of(loop));
}

static bool has_work(mr_loop *loop)
{
    mr_ring *state = mr_ring_of(loop);
    arm_wake(loop, state);
    mr_ring_arm_edges(loop, state);
    return state->unsubmitted || state->backlog.first || has_undelivered(state) || io_uring_cq_ready(&state->ring);
}

/* Counts the operations that are in the backlog, and those that wait for an edge. */
static void check(const mr_loop *loop)
{
    const mr_ring *state = mr_ring_of(loop);
    const mr_slot *last = NULL;
    size_t waiting = 0, in_backlog = 0, found = 0;
    for (uint32_t i = 0; i < loop->slots.count; i++) {
        const mr_slot *slot = mr_pool_at(&loop->slots, i, sizeof *slot);
        mr_ring_queue queue = slot->state == MR_SLOT_PENDING ? mr_ring_slot_of(slot)->queue : IN_NO_QUEUE;
        waiting += queue == AWAITS_EDGE;
        in_backlog += queue == AWAITS_SUBMISSION || queue == AWAITS_CANCELLATION;
    }
    for (const mr_slot *slot = state->backlog.first; slot; last = slot, slot = slot->queued)
        MR_CHECK(slot->state == MR_SLOT_PENDING && ++found <= in_backlog);
    MR_CHECK(found == in_backlog && state->backlog.last == last);
    MR_CHECK(waiting == state->edges_waiting);
}

/* Makes the system call directly: liburing's waiting functions would submit entries that other threads are queueing. */
static void wait_for_completions(const mr_loop *loop, uint64_t until_ns)
{
    struct __kernel_timespec timeout = {0};
    struct io_uring_getevents_arg argument = {0};
    if (until_ns != MR_NEVER_NS) {
        uint64_t left_ns = mr_clock_left_ns(until_ns);
        timeout.tv_sec = (long long)(left_ns / MR_NS_PER_S);
        timeout.tv_nsec = (long long)(left_ns % MR_NS_PER_S);
        argument.ts = (uint64_t)(uintptr_t)&timeout;
    }
    io_uring_enter2((unsigned)mr_ring_of(loop)->ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                    (sigset_t *)&argument, sizeof argument);
}

/* ----------------------------------------------------------------------------------------------------- lifetime --- */

/* Linux has tied rings since 6.1; before, the ring is shared. */
static int open_ring_of(const mr_loop *loop, mr_ring *state)
{
    state->is_tied = loop->group->owners == MR_OWNERS_ARE_FIXED &&
                     mr_uring_open(&state->ring, RING_ENTRIES, COMPLETION_ENTRIES, MR_URING_TIED) == 0;
    state->is_enabled = !state->is_tied;
    return state->is_tied ? 0 : mr_uring_open(&state->ring, RING_ENTRIES, COMPLETION_ENTRIES, MR_URING_SHARED);
}

static int open_descriptors(mr_loop *loop, mr_ring *state)
{
    state->edges = epoll_create1(EPOLL_CLOEXEC);
    if (state->edges < 0)
        return -errno;
    int error = mr_eventfd_open(loop);
    if (!error && (error = open_ring_of(loop, state)))
        mr_eventfd_close(loop);
    if (error)
        close(state->edges);
    return error;
}

static int create(mr_loop *loop)
{
    mr_ring *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    int error = open_descriptors(loop, state);
    if (error) {
        free(state);
        return error;
    }
    mr_ring_open_buffers(state);
    io_uring_ring_dontfork(&state->ring); /* a child that wrote to the shared memory would corrupt ours */
    loop->backend_state = state;
    return 0;
}

static void destroy(mr_loop *loop)
{
    mr_ring *state = mr_ring_of(loop);
    close(state->edges);
    io_uring_queue_exit(&state->ring);
    mr_ring_close_buffers(state);
    mr_eventfd_close(loop);
    free(state);
}

static void abandon(mr_loop *loop)
{
    mr_ring *state = mr_ring_of(loop);
    close(state->ring.ring_fd); /* the memory was not inherited */
    close(state->edges);
    mr_ring_free_buffers(state);
    mr_eventfd_close(loop);
    free(state);
}

const mr_backend_operations mr_io_uring_backend = {
    .probe = mr_uring_probe,
    .create = create,
    .destroy = destroy,
    .abandon = abandon,
    .submit = mr_ring_submit,
    .sends_first = true,
    .cancel = cancel,
    .attempt = mr_attempt,
    .detach = mr_ring_detach,
    .close = mr_descriptor_close,
    .poll = poll_ring,
    .flush = flush,
    .has_work = has_work,
    .check = check,
    .wait = wait_for_completions,
    .wake = mr_eventfd_ring,
};
