/*
 * io_uring.c: Linux's own completion interface, through liburing.
 *
 * Submissions gather in the ring and go to the kernel once per poll. Most owners change threads from call to call: their
 * rings are opened without the flags that tie a ring to one thread (SINGLE_ISSUER, DEFER_TASKRUN). When a thread ends, the
 * kernel cancels what it had submitted; mr_loop_settle has such operations submitted again. Where the owner is one thread
 * (mr_group_create_with_owned_loops) the ring is tied to it, and delivers when that thread polls.
 */
#include "../backend.h"
#include "../eventfd.h"
#include "../send_then_receive.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    RING_ENTRIES = 1024,
    COMPLETION_ENTRIES = 8192,
    /* Sends do their TCP work inside the submission: 64 of them keep the owner for about a quarter of a millisecond. */
    BATCH = 64,
    REAP = 64,
    /* Buffers that the kernel may choose from for receives that brought none; a power of two. */
    LENT_BUFFERS_MAX = 1024,
    LENT_GROUP = 0,
};

/* user_data of entries that are no operation: tokens are neither that small nor that great. */
enum { TAG_WAKE = 1, TAG_EDGES };
#define TAG_CANCEL (UINT64_C(1) << 60) /* beside the token that is to be cancelled */

/* What a slot is on the backlog for; or, not on it, that it waits for a report of `edges`. */
enum { BACKLOG_NONE = 0, BACKLOG_SUBMIT, BACKLOG_CANCEL, WAITS_FOR_EDGE };

typedef struct ring_state {
    struct io_uring ring;
    /* Buffers the kernel may choose from, by identifier; no `lent_ring` without memory for it. */
    struct io_uring_buf_ring *lent_ring;
    mr_buffer *lent[LENT_BUFFERS_MAX];
    unsigned short lent_count;   /* identifiers in use */
    unsigned short lent_missing; /* ... and without a buffer, because there was no memory */
    unsigned unsubmitted;
    mr_slot *backlog_first; /* operations whose submission or cancellation found no room in the ring */
    mr_slot *backlog_last;
    bool wake_armed;
    /* an epoll descriptor, see waits_for_edge; opened with the ring: later, it could take the number of a standard
     * descriptor that was closed */
    int edges;
    bool edges_armed;
    size_t edges_waiting;
    bool is_tied;    /* to the thread that uses it first ... */
    bool is_enabled; /* ... which is known */
} ring_state;

static ring_state *state_of(const mr_loop *loop)
{
    return loop->backend_state;
}

/* ------------------------------------------------------------------------------------------------------ probing --- */

static const struct {
    int opcode;
    const char *name;
} needed_opcodes[] = {
    {IORING_OP_ACCEPT, "ACCEPT"},   {IORING_OP_RECV, "RECV"},
    {IORING_OP_SEND, "SEND"},       {IORING_OP_RECVMSG, "RECVMSG"},
    {IORING_OP_SENDMSG, "SENDMSG"}, {IORING_OP_POLL_ADD, "POLL_ADD"},
    {IORING_OP_READ, "READ"},       {IORING_OP_WRITE, "WRITE"},
    {IORING_OP_FSYNC, "FSYNC"},     {IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"},
};

/* EXT_ARG (5.11): wait with a timeout without taking a submission entry. NODROP (5.5): no completion is lost when the
 * queue is full. FAST_POLL (5.7): a receive that would block does not occupy a kernel thread. */
#define NEEDED_FEATURES (IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_FAST_POLL)

/* How a ring delivers. Shared: COOP_TASKRUN (5.19), the kernel does not interrupt the running thread to deliver. Older
 * kernels refuse it, and are not wanted: they do not say whether a receive has emptied the socket, and some refuse what is
 * asked of them then (POLL_FIRST) or end an accept that would wait. Tied: it belongs to nobody until its thread enables it. */
enum {
    SHARED_RING = IORING_SETUP_COOP_TASKRUN,
    TIED_RING =
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
};

static int open_ring(struct io_uring *ring, unsigned entries, unsigned completion_entries, unsigned delivery)
{
    struct io_uring_params params = {.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | delivery,
                                     .cq_entries = completion_entries};
    return io_uring_queue_init_params(entries, ring, &params);
}

static const char *missing_opcode(struct io_uring *ring)
{
    const char *missing = NULL;
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    if (!probe)
        return "PROBE";
    for (size_t i = 0; i < sizeof needed_opcodes / sizeof *needed_opcodes && !missing; i++)
        if (!io_uring_opcode_supported(probe, needed_opcodes[i].opcode))
            missing = needed_opcodes[i].name;
    io_uring_free_probe(probe);
    return missing;
}

static int refuse(int error, char *reason, size_t reason_size, const char *what, const char *detail)
{
    if (reason)
        snprintf(reason, reason_size, "%s%s%s", what, *detail ? ": " : "", detail);
    return error;
}

static const char *explain(int error)
{
    switch (error) {
    case -EPERM:
        return "io_uring_setup is forbidden here (seccomp profile or sysctl kernel.io_uring_disabled)";
    case -ENOSYS:
        return "this kernel has no io_uring";
    case -EINVAL:
        return "this kernel's io_uring is older than Linux 5.19";
    case -ENOMEM:
        return "no memory for a ring (RLIMIT_MEMLOCK)";
    default:
        return "io_uring_setup failed";
    }
}

/* Some seccomp profiles allow io_uring_setup and forbid io_uring_enter. */
static int try_submission(struct io_uring *ring)
{
    io_uring_prep_nop(io_uring_get_sqe(ring));
    int submitted = io_uring_submit_and_wait(ring, 1);
    return submitted < 0 ? submitted : 0;
}

static int probe(char *reason, size_t reason_size)
{
    struct io_uring ring;
    int error = open_ring(&ring, 8, 16, SHARED_RING);
    if (error)
        return refuse(error, reason, reason_size, explain(error), strerror(-error));
    const char *missing = missing_opcode(&ring);
    bool lacks_features = (ring.features & NEEDED_FEATURES) != NEEDED_FEATURES;
    error = try_submission(&ring);
    io_uring_queue_exit(&ring);
    if (lacks_features)
        return refuse(-ENOSYS, reason, reason_size, "this kernel's io_uring lacks a feature", "");
    if (missing)
        return refuse(-ENOSYS, reason, reason_size, "this kernel's io_uring lacks an operation", missing);
    if (error)
        return refuse(error, reason, reason_size, "io_uring_enter is refused", strerror(-error));
    return 0;
}

/* ------------------------------------------------------------------------------------------------- lent buffers --- */

bool mr_io_uring_without_buffer_rings; /* see backend.h */

static size_t lent_ring_size(void)
{
    return LENT_BUFFERS_MAX * sizeof(struct io_uring_buf);
}

/* Puts a buffer where there is none; false without memory. */
static bool fill_place(mr_loop *loop, ring_state *state, unsigned short id)
{
    state->lent[id] = mr_lender_take(&loop->lender);
    if (!state->lent[id])
        return false;
    io_uring_buf_ring_add(state->lent_ring, state->lent[id]->bytes, MR_BUFFER_BYTES, id,
                          io_uring_buf_ring_mask(LENT_BUFFERS_MAX), 0);
    io_uring_buf_ring_advance(state->lent_ring, 1);
    return true;
}

/*
 * A receive has found no buffer in the kernel: one more is needed, if all of the present ones are in use at once. So the
 * kernel gets as many as have ever been filled in one go, and an idle loop's stay warm.
 */
static void add_lent(mr_loop *loop, ring_state *state)
{
    for (unsigned short id = 0; state->lent_missing && id < state->lent_count; id++)
        if (!state->lent[id] && fill_place(loop, state, id))
            state->lent_missing--;
    if (state->lent_count < LENT_BUFFERS_MAX && fill_place(loop, state, state->lent_count))
        state->lent_count++;
}

/* Takes the buffer that the kernel has chosen, and gives it another one in its place. */
static mr_buffer *take_chosen(mr_loop *loop, ring_state *state, const struct io_uring_cqe *entry)
{
    unsigned short id = (unsigned short)(entry->flags >> IORING_CQE_BUFFER_SHIFT);
    mr_buffer *chosen = state->lent[id];
    if (!fill_place(loop, state, id))
        state->lent_missing++;
    return chosen;
}

/* Without success receives of lent buffers are attempted when the socket is readable. */
static void open_lent_ring(ring_state *state)
{
    if (mr_io_uring_without_buffer_rings)
        return;
    void *memory = mmap(NULL, lent_ring_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)memory, .ring_entries = LENT_BUFFERS_MAX, .bgid = LENT_GROUP};
    if (madvise(memory, lent_ring_size(), MADV_DONTFORK) < 0 ||
        io_uring_register_buf_ring(&state->ring, &registration, 0) < 0) {
        munmap(memory, lent_ring_size());
        return;
    }
    state->lent_ring = memory;
    io_uring_buf_ring_init(state->lent_ring);
}

static void free_lent(ring_state *state)
{
    for (int id = 0; id < state->lent_count; id++)
        mr_buffer_destroy(state->lent[id]);
}

static bool is_lent(const mr_slot *slot)
{
    return slot->request.flags & MR_BORROW;
}

/* --------------------------------------------------------------------------------------------------- submitting --- */

/*
 * Operations that are attempted here and, if they would block, again when the socket is ready: a file has no operation
 * of io_uring's that does it in one step, a connect could not be submitted again after the thread that had submitted
 * it has ended (EALREADY), and older kernels choose no buffers.
 */
static bool is_attempted(const ring_state *state, const mr_slot *slot)
{
    return slot->request.kind == MR_CONNECT || slot->request.kind == MR_SEND_FILE ||
           (is_lent(slot) && !state->lent_ring);
}

/* A tied ring: has something come that is to be asked for? */
static bool has_undelivered(const ring_state *state)
{
    unsigned flags = __atomic_load_n(state->ring.sq.kflags, __ATOMIC_RELAXED);
    return state->is_tied && (flags & IORING_SQ_TASKRUN);
}

static void enable(mr_loop *loop, ring_state *state)
{
    mr_count(&loop->counters.system_calls, 1);
    /* Not io_uring_enable_rings: liburing 2.3 does not export it from its shared library. */
    syscall(SYS_io_uring_register, state->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    state->is_enabled = true;
}

static void flush_ring(mr_loop *loop, ring_state *state)
{
    if (!state->unsubmitted)
        return;
    if (!state->is_enabled)
        enable(loop, state);
    mr_count(&loop->counters.system_calls, 1);
    /* EBUSY, EAGAIN: the kernel wants completions reaped first. The entries stay in the ring; the next poll reaps,
     * then submits them. EINTR: likewise. */
    int submitted = state->is_tied ? io_uring_submit_and_get_events(&state->ring) : io_uring_submit(&state->ring);
    if (submitted >= 0)
        state->unsubmitted = io_uring_sq_ready(&state->ring);
}

static struct io_uring_sqe *next_entry(mr_loop *loop, ring_state *state)
{
    if (state->unsubmitted >= BATCH)
        flush_ring(loop, state);
    struct io_uring_sqe *entry = io_uring_get_sqe(&state->ring);
    if (entry)
        state->unsubmitted++;
    return entry;
}

static void set_token(struct io_uring_sqe *entry, uint64_t token)
{
    entry->user_data = token;
}

static void prepare_message(struct io_uring_sqe *entry, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    struct msghdr *message = slot->backend_memory;
    *message = (struct msghdr){.msg_iov = request->buffer, .msg_iovlen = request->length};
    if (request->kind == MR_RECV_VECTOR)
        io_uring_prep_recvmsg(entry, mr_slot_number(slot), message, 0);
    else
        io_uring_prep_sendmsg(entry, mr_slot_number(slot), message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* An entry has 32 bits for a length, and the kernel moves less than 2 GiB at a time. */
static size_t entry_bytes(const mr_request *request)
{
    const uint64_t most = UINT64_C(1) << 30;
    return (size_t)(request->length < most ? request->length : most);
}

static void prepare_recv(struct io_uring_sqe *entry, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    io_uring_prep_recv(entry, mr_slot_number(slot), request->buffer, entry_bytes(request), 0);
    if (is_lent(slot)) {
        entry->flags |= IOSQE_BUFFER_SELECT;
        entry->buf_group = LENT_GROUP;
    }
    /* After a receive that emptied the socket, a first attempt now would most likely be in vain. */
    if (slot->descriptor->drained)
        entry->ioprio |= IORING_RECVSEND_POLL_FIRST;
}

static void prepare(const ring_state *state, struct io_uring_sqe *entry, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    int number = mr_slot_number(slot);
    mr_address *address = request->buffer;

    switch (slot->awaits_room ? MR_WAIT_WRITABLE : request->kind) {
    case MR_ACCEPT:
        if (address)
            address->length = sizeof address->storage;
        io_uring_prep_accept(entry, number, address ? (struct sockaddr *)&address->storage : NULL,
                             address ? &address->length : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        break;
    case MR_RECV:
        if (is_attempted(state, slot))
            io_uring_prep_poll_add(entry, number, POLLIN | POLLRDHUP);
        else
            prepare_recv(entry, slot);
        break;
    case MR_SEND:
        io_uring_prep_send(entry, number, request->buffer, entry_bytes(request),
                           MSG_NOSIGNAL | MSG_DONTWAIT | (request->flags & MR_MORE ? MSG_MORE : 0));
        break;
    case MR_SEND_THEN_RECEIVE:
        io_uring_prep_send(entry, number, mr_send_then_receive_bytes(request), request->length,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case MR_RECV_VECTOR:
    case MR_SEND_VECTOR:
        prepare_message(entry, slot);
        break;
    case MR_READ_FILE:
        io_uring_prep_read(entry, number, request->buffer, (unsigned)mr_file_bytes(request), request->offset);
        break;
    case MR_WRITE_FILE:
        io_uring_prep_write(entry, number, request->buffer, (unsigned)mr_file_bytes(request), request->offset);
        break;
    case MR_SYNC_FILE:
        io_uring_prep_fsync(entry, number, 0);
        break;
    case MR_WAIT_READABLE:
        io_uring_prep_poll_add(entry, number, POLLIN | POLLRDHUP);
        break;
    default: /* MR_CONNECT, MR_SEND_FILE, MR_WAIT_WRITABLE and sends that await room; nothing else reaches a backend */
        io_uring_prep_poll_add(entry, number, POLLOUT);
        break;
    }
    set_token(entry, slot->token);
}

static void push_backlog(ring_state *state, mr_slot *slot, uint8_t purpose)
{
    slot->backlog = purpose;
    slot->queued = NULL;
    if (state->backlog_last)
        state->backlog_last->queued = slot;
    else
        state->backlog_first = slot;
    state->backlog_last = slot;
}

static void enqueue(mr_loop *loop, mr_slot *slot)
{
    ring_state *state = state_of(loop);
    struct io_uring_sqe *entry = state->backlog_first ? NULL : next_entry(loop, state);
    if (entry)
        prepare(state, entry, slot);
    else
        push_backlog(state, slot, BACKLOG_SUBMIT);
}

/*
 * io_uring reads and writes what has no positions (sockets, pipes, terminals, event descriptors) where it stands: it would
 * take bytes from a stream, wait on a thread of the kernel, or raise SIGPIPE. preadv is told, and touches nothing for a
 * vector without elements.
 */
static bool has_positions(mr_loop *loop, mr_descriptor *descriptor)
{
    if (descriptor->has_positions)
        return true;
    mr_count(&loop->counters.system_calls, 1);
    descriptor->has_positions = preadv(descriptor->number, NULL, 0, 0) == 0 || errno != ESPIPE;
    return descriptor->has_positions;
}

static void submit(mr_loop *loop, mr_slot *slot)
{
    mr_kind kind = slot->request.kind;
    if ((kind == MR_READ_FILE || kind == MR_WRITE_FILE) && !has_positions(loop, slot->descriptor)) {
        mr_loop_settle(loop, slot, -ESPIPE);
        return;
    }
    if (is_attempted(state_of(loop), slot) && mr_loop_try(loop, slot))
        return;
    if (mr_has_trait(kind, MR_HAS_VECTOR) && !slot->backend_memory) {
        slot->backend_memory = malloc(sizeof(struct msghdr));
        if (!slot->backend_memory) {
            mr_loop_settle(loop, slot, -ENOMEM);
            return;
        }
    }
    enqueue(loop, slot);
}

static void leave_backlog(ring_state *state, mr_slot *slot)
{
    mr_slot *before = NULL;
    for (mr_slot *each = state->backlog_first; each != slot; each = each->queued)
        before = each;
    if (before)
        before->queued = slot->queued;
    else
        state->backlog_first = slot->queued;
    if (state->backlog_last == slot)
        state->backlog_last = before;
    slot->backlog = BACKLOG_NONE;
}

static void prepare_cancel(struct io_uring_sqe *entry, mr_slot *slot)
{
    io_uring_prep_cancel64(entry, slot->token, 0);
    set_token(entry, slot->token | TAG_CANCEL);
}

/*
 * A poll of the ring always looks for the end of the peer's stream, too (io_poll_parse_events and IO_POLL_UNMASK in
 * io_uring/poll.c), and every poll for errors. After that end, or as long as the queue of errors is not empty that a program
 * has asked for (SO_TIMESTAMPING, IP_RECVERR), it answers at once, whether there is room or not, bytes or none. Whoever
 * begins again for that would do so without end. epoll reports what it is asked for, and errors only when they come: such
 * sockets are watched by one of epoll, and that by the ring.
 *
 * (Of a receive that is the kernel's own, MR_RECV, the kernel does not tell: one of its threads waits for it then.)
 */
static bool waits_for_edge(const ring_state *state, const mr_slot *slot, int32_t answer)
{
    mr_kind kind = slot->request.kind;
    if (kind == MR_WAIT_WRITABLE)
        return answer >= 0 && !(answer & (POLLOUT | POLLERR | POLLHUP));
    if (kind == MR_ACCEPT || mr_is_wait(kind) || mr_is_on_file(kind))
        return false;
    if (mr_direction_of(kind) == MR_WRITING)
        return answer >= 0 && !(answer & (POLLOUT | POLLHUP));
    return is_attempted(state, slot) ? answer >= 0 && !(answer & (POLLIN | POLLRDHUP | POLLHUP)) : answer == -EAGAIN;
}

static uint32_t events_of(const mr_descriptor *descriptor)
{
    return (descriptor->is_watched_for[MR_READING] ? EPOLLIN | EPOLLRDHUP : 0) |
           (descriptor->is_watched_for[MR_WRITING] ? EPOLLOUT : 0);
}

/* A number may be watched already, or its file be a new one: of a foreign descriptor nobody tells. What is ready already is
 * reported at once. */
static bool watch_edges(mr_loop *loop, ring_state *state, const mr_descriptor *descriptor)
{
    bool is_foreign = descriptor->generation == 0; /* only room is waited for then */
    struct epoll_event event = {.events = is_foreign ? EPOLLOUT | EPOLLONESHOT : events_of(descriptor) | EPOLLET,
                                .data.fd = descriptor->number};
    mr_count(&loop->counters.system_calls, 1);
    return epoll_ctl(state->edges, EPOLL_CTL_MOD, descriptor->number, &event) == 0 ||
           epoll_ctl(state->edges, EPOLL_CTL_ADD, descriptor->number, &event) == 0;
}

static void unwatch_edges(mr_loop *loop, const mr_descriptor *descriptor)
{
    mr_count(&loop->counters.system_calls, 1);
    epoll_ctl(state_of(loop)->edges, EPOLL_CTL_DEL, descriptor->number, NULL);
}

/*
 * What is watched has reported what was there before; some of that may have been another's. So it is attempted once more
 * before it waits for what comes. True when it waits, or has ended; false without memory for it: then it is begun again.
 */
static bool wait_for_edge(mr_loop *loop, mr_slot *slot)
{
    ring_state *state = state_of(loop);
    mr_descriptor *descriptor = slot->descriptor;
    bool *is_watched = &descriptor->is_watched_for[mr_direction_of(slot->request.kind)];
    if (*is_watched && mr_loop_try(loop, slot))
        return true;
    if (!*is_watched) {
        *is_watched = descriptor->generation != 0;
        if (!watch_edges(loop, state, descriptor)) {
            *is_watched = false;
            return false;
        }
    }
    slot->backlog = WAITS_FOR_EDGE;
    state->edges_waiting++;
    return true;
}

static void leave_edges(ring_state *state, mr_slot *slot)
{
    slot->backlog = BACKLOG_NONE;
    slot->awaits_room = false;
    state->edges_waiting--;
}

static void cancel(mr_loop *loop, mr_slot *slot)
{
    ring_state *state = state_of(loop);
    if (slot->backlog == WAITS_FOR_EDGE) {
        leave_edges(state, slot);
        mr_loop_conclude(loop, slot);
        return;
    }
    if (slot->backlog == BACKLOG_SUBMIT) {
        leave_backlog(state, slot);
        mr_loop_conclude(loop, slot);
        return;
    }
    struct io_uring_sqe *entry = next_entry(loop, state);
    if (entry)
        prepare_cancel(entry, slot);
    else
        push_backlog(state, slot, BACKLOG_CANCEL);
}

/* The close that follows would do, unless a child process has inherited the open file. */
static void detach(mr_loop *loop, mr_descriptor *descriptor)
{
    if (!events_of(descriptor))
        return;
    unwatch_edges(loop, descriptor);
    descriptor->is_watched_for[MR_READING] = descriptor->is_watched_for[MR_WRITING] = false;
}

/* ------------------------------------------------------------------------------------------------------- polling --- */

static void arm_wake(mr_loop *loop, ring_state *state)
{
    struct io_uring_sqe *entry = state->wake_armed ? NULL : next_entry(loop, state);
    if (!entry)
        return;
    io_uring_prep_poll_add(entry, loop->wake_descriptor, POLLIN);
    set_token(entry, TAG_WAKE);
    state->wake_armed = true;
}

static void arm_edges(mr_loop *loop, ring_state *state)
{
    struct io_uring_sqe *entry = state->edges_armed || !state->edges_waiting ? NULL : next_entry(loop, state);
    if (!entry)
        return;
    io_uring_prep_poll_add(entry, state->edges, POLLIN);
    set_token(entry, TAG_EDGES);
    state->edges_armed = true;
}

/* Each looks again. So it does no harm if the number was another file's when it was watched. */
static bool serve_edges(mr_loop *loop, ring_state *state, mr_descriptor *descriptor, int direction)
{
    bool has_served = false;
    for (mr_slot *slot = descriptor->first[direction], *next; slot; slot = next) {
        next = slot->next;
        if (slot->backlog != WAITS_FOR_EDGE)
            continue;
        leave_edges(state, slot);
        submit(loop, slot);
        has_served = true;
    }
    return has_served;
}

/* A direction in which nobody waits is watched no longer: who waits next is told what is there already. */
static void note_edge(mr_loop *loop, ring_state *state, const struct epoll_event *event)
{
    static const uint32_t events[MR_DIRECTIONS] = {EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR,
                                                   EPOLLOUT | EPOLLHUP | EPOLLERR};
    mr_descriptor *descriptor = mr_loop_descriptor(loop, event->data.fd);
    bool has_changed = false;
    for (int direction = 0; direction < MR_DIRECTIONS; direction++) {
        bool is_reported = event->events & events[direction];
        if (!is_reported || serve_edges(loop, state, descriptor, direction))
            continue;
        has_changed |= descriptor->is_watched_for[direction];
        descriptor->is_watched_for[direction] = false;
    }
    if (!has_changed)
        return;
    if (!events_of(descriptor))
        unwatch_edges(loop, descriptor);
    else
        watch_edges(loop, state, descriptor);
}

static void note_edges(mr_loop *loop, ring_state *state)
{
    struct epoll_event events[REAP];
    mr_count(&loop->counters.system_calls, 1);
    int count = epoll_wait(state->edges, events, REAP, 0);
    state->edges_armed = false;
    for (int i = 0; i < count; i++)
        note_edge(loop, state, &events[i]);
}

static void note_wake(mr_loop *loop, ring_state *state)
{
    mr_eventfd_drain(loop); /* nothing is there if the poll was cancelled, because the thread that armed it has ended */
    state->wake_armed = false;
}

/* What the kernel's answer means to the operation; -EAGAIN: it must be begun again. */
static int64_t interpret(const ring_state *state, const mr_slot *slot, int32_t result)
{
    if (result > 0 && mr_is_wait(slot->request.kind)) /* a poll's result is a mask */
        return waits_for_edge(state, slot, result) ? -EAGAIN : 0;
    if (result == -EAGAIN && slot->request.kind == MR_SEND_THEN_RECEIVE)
        return mr_not_sent(0);
    return result;
}

/* Bytes have come in a buffer of the kernel's choice; some kernels report one even if there are none. */
static void accept_chosen(mr_loop *loop, mr_slot *slot, const struct io_uring_cqe *entry)
{
    mr_buffer *chosen = take_chosen(loop, state_of(loop), entry);
    if (slot && entry->res > 0)
        slot->lent = chosen;
    else
        mr_lender_put(&loop->lender, chosen);
}

/*
 * A receive has found none of the kernel's buffers: whether bytes are there is not known. Begun again it might lose the next
 * ones as well, to connections served meanwhile; with ten thousand some waited for seconds. So it is attempted with a
 * buffer of ours. True when that was the end of it; otherwise it will wait before it takes a buffer.
 */
static bool receive_without_kernel_buffer(mr_loop *loop, mr_slot *slot)
{
    add_lent(loop, state_of(loop));
    if (mr_loop_try(loop, slot))
        return true;
    slot->descriptor->drained = true;
    return false;
}

/* Ready for ever, and nothing to be had: begun again and again, the operation would cost all of the processor. */
static bool is_shut(mr_loop *loop, const mr_slot *slot)
{
    struct pollfd entry = {.fd = mr_slot_number(slot), .events = POLLRDHUP};
    if (mr_when_shut(slot->request.kind, MR_READING) == -EAGAIN)
        return false;
    mr_count(&loop->counters.system_calls, 1);
    return poll(&entry, 1, 0) > 0 && (entry.revents & POLLRDHUP);
}

/* What would be begun again has ended after all, or waits for an edge. */
static bool goes_past_ring(mr_loop *loop, mr_slot *slot, int32_t answer)
{
    if (slot->end_reason) /* its cancellation has come and gone already: begun again, it would never end */
        return mr_loop_settle(loop, slot, -ECANCELED);
    if (is_shut(loop, slot)) /* what came before the end is received first */
        return mr_loop_try(loop, slot) || mr_loop_settle(loop, slot, mr_when_shut(slot->request.kind, MR_READING));
    return waits_for_edge(state_of(loop), slot, answer) && wait_for_edge(loop, slot);
}

/* True when the kernel's answer was the end of the operation, or it waits past the ring; otherwise it must be begun again. */
static bool apply(mr_loop *loop, mr_slot *slot, int32_t answer)
{
    int64_t result;
    if (answer >= 0 && is_attempted(state_of(loop), slot)) {
        if (mr_loop_try(loop, slot))
            return true;
        result = -EAGAIN;
    } else if (slot->awaits_room && answer >= 0) {
        slot->awaits_room = false;
        result = -EAGAIN;
    } else if (answer == -EAGAIN && mr_has_trait(slot->request.kind, MR_SENDS)) {
        slot->awaits_room = true;
        result = -EAGAIN;
    } else if (answer == -ENOBUFS && is_lent(slot)) {
        if (receive_without_kernel_buffer(loop, slot))
            return true;
        result = -EAGAIN;
    } else if (answer == -ECANCELED && slot->end_reason) {
        /* A tied ring delivers a few at a time (IO_LOCAL_TW_DEFAULT_MAX): what was ready may have been cancelled. */
        mr_loop_conclude(loop, slot);
        return true;
    } else {
        result = interpret(state_of(loop), slot, answer);
    }
    return result == -EAGAIN ? goes_past_ring(loop, slot, answer) : mr_loop_settle(loop, slot, result);
}

static void complete(mr_loop *loop, const struct io_uring_cqe *entry)
{
    ring_state *state = state_of(loop);
    mr_slot *slot = mr_loop_find(loop, entry->user_data);
    if (slot && slot->state != MR_SLOT_PENDING)
        slot = NULL;
    if (entry->flags & IORING_CQE_F_BUFFER)
        accept_chosen(loop, slot, entry);
    if (!slot)
        return;
    if (slot->backlog) /* it ended by itself while its cancellation waited for room */
        leave_backlog(state, slot);
    if (slot->request.kind == MR_RECV)
        slot->descriptor->drained = entry->res > 0 && !(entry->flags & IORING_CQE_F_SOCK_NONEMPTY);
    if (!apply(loop, slot, entry->res))
        enqueue(loop, slot);
}

/*
 * ENOENT: the operation has ended, or it is under way between two places where the kernel looks (a poll that has fired and
 * waits as task work, after which the receive may wait again). EALREADY: a file's operation that cannot be stopped.
 */
static void note_cancel(mr_loop *loop, const struct io_uring_cqe *entry)
{
    mr_slot *slot = entry->res == -ENOENT ? mr_loop_find(loop, entry->user_data & ~TAG_CANCEL) : NULL;
    if (slot && slot->state == MR_SLOT_PENDING && slot->end_reason && !slot->backlog)
        cancel(loop, slot);
}

static void have_delivered(mr_loop *loop, ring_state *state)
{
    if (!has_undelivered(state))
        return;
    mr_count(&loop->counters.system_calls, 1);
    io_uring_get_events(&state->ring);
}

static bool reap(mr_loop *loop, ring_state *state)
{
    struct io_uring_cqe *entries[REAP];
    unsigned count = io_uring_peek_batch_cqe(&state->ring, entries, REAP);
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_cqe entry = *entries[i];
        if (entry.user_data == TAG_WAKE)
            note_wake(loop, state);
        else if (entry.user_data == TAG_EDGES)
            note_edges(loop, state);
        else if (entry.user_data & TAG_CANCEL)
            note_cancel(loop, &entry);
        else
            complete(loop, &entry);
    }
    io_uring_cq_advance(&state->ring, count);
    return count > 0;
}

static void submit_backlog(mr_loop *loop, ring_state *state)
{
    while (state->backlog_first) {
        struct io_uring_sqe *entry = next_entry(loop, state);
        if (!entry)
            return;
        mr_slot *slot = state->backlog_first;
        bool is_cancel = slot->backlog == BACKLOG_CANCEL;
        leave_backlog(state, slot);
        if (is_cancel)
            prepare_cancel(entry, slot);
        else
            prepare(state, entry, slot);
    }
}

/* The kernel may refuse for want of memory, or because completions are to be reaped first. */
static bool flush(mr_loop *loop)
{
    ring_state *state = state_of(loop);
    submit_backlog(loop, state);
    arm_wake(loop, state);
    arm_edges(loop, state);
    flush_ring(loop, state);
    return !state->unsubmitted && !state->backlog_first;
}

static void poll_ring(mr_loop *loop)
{
    flush(loop);
    have_delivered(loop, state_of(loop));
    reap(loop, state_of(loop));
}

static bool has_work(mr_loop *loop)
{
    ring_state *state = state_of(loop);
    arm_wake(loop, state);
    arm_edges(loop, state);
    return state->unsubmitted || state->backlog_first || has_undelivered(state) || io_uring_cq_ready(&state->ring);
}

/* Straight to the system call: liburing's waiting functions would submit what other threads are queueing. */
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
    io_uring_enter2((unsigned)state_of(loop)->ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                    (sigset_t *)&argument, sizeof argument);
}

/* ------------------------------------------------------------------------------------------------------ lifetime --- */

/* Kernels before Linux 6.1 tie no ring. */
static int open_ring_of(const mr_loop *loop, ring_state *state)
{
    state->is_tied =
        loop->group->owners_are_fixed && open_ring(&state->ring, RING_ENTRIES, COMPLETION_ENTRIES, TIED_RING) == 0;
    state->is_enabled = !state->is_tied;
    return state->is_tied ? 0 : open_ring(&state->ring, RING_ENTRIES, COMPLETION_ENTRIES, SHARED_RING);
}

static int open_descriptors(mr_loop *loop, ring_state *state)
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
    ring_state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    int error = open_descriptors(loop, state);
    if (error) {
        free(state);
        return error;
    }
    open_lent_ring(state);
    io_uring_ring_dontfork(&state->ring); /* a child that wrote to the shared memory would corrupt ours */
    loop->backend_state = state;
    return 0;
}

static void destroy(mr_loop *loop)
{
    ring_state *state = state_of(loop);
    close(state->edges);
    io_uring_queue_exit(&state->ring);
    if (state->lent_ring)
        munmap(state->lent_ring, lent_ring_size());
    free_lent(state);
    mr_eventfd_close(loop);
    free(state);
}

static void abandon(mr_loop *loop)
{
    ring_state *state = state_of(loop);
    close(state->ring.ring_fd); /* the memory was not inherited */
    close(state->edges);
    free_lent(state);
    mr_eventfd_close(loop);
    free(state);
}

const mr_backend_operations mr_io_uring_backend = {
    .probe = probe,
    .create = create,
    .destroy = destroy,
    .abandon = abandon,
    .submit = submit,
    .sends_first = true,
    .cancel = cancel,
    .attempt = mr_attempt,
    .detach = detach,
    .close = mr_descriptor_close,
    .poll = poll_ring,
    .flush = flush,
    .has_work = has_work,
    .wait = wait_for_completions,
    .wake = mr_eventfd_ring,
};
