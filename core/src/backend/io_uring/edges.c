/* edges.c: waits by epoll for sockets for which the ring's own polls cannot wait. The ring polls the epoll
 * descriptor. */
#include "../../perform.h"
#include "edges.h"
#include "prepare.h"
#include "queue.h"
#include "ring.h"
#include "io_uring.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

/*
 * A poll of the ring always looks for the end of the peer's stream as well (io_poll_parse_events and IO_POLL_UNMASK in
 * io_uring/poll.c), and every poll looks for errors. After that end it completes at once, even if the socket is not
 * writable. It does the same while the error queue that a program enables with SO_TIMESTAMPING or IP_RECVERR is not
 * empty. A poll that is started again each time would complete endlessly. epoll reports only requested events, and an
 * error only once. So an epoll instance watches such sockets, and the ring polls that instance.
 *
 * (An MR_RECV that the kernel carries out itself is no problem: one of its threads then waits.)
 */
bool mr_ring_waits_for_edge(const mr_ring *state, const mr_slot *slot, int32_t answer)
{
    mr_kind kind = slot->request.kind;
    if (kind == MR_WAIT_WRITABLE)
        return answer >= 0 && !(answer & (POLLOUT | POLLERR | POLLHUP));
    if (kind == MR_ACCEPT || mr_is_wait(kind) || mr_is_on_file(kind))
        return false;
    if (mr_direction_of(kind) == MR_WRITING)
        return answer >= 0 && !(answer & (POLLOUT | POLLHUP));
    return mr_ring_is_attempted(state, slot) ? answer >= 0 && !(answer & (POLLIN | POLLRDHUP | POLLHUP))
                                             : answer == -EAGAIN;
}

static uint32_t events_of(const mr_descriptor *descriptor)
{
    return (mr_ring_descriptor_of(descriptor)->is_watched_for[MR_READING] ? EPOLLIN | EPOLLRDHUP : 0) |
           (mr_ring_descriptor_of(descriptor)->is_watched_for[MR_WRITING] ? EPOLLOUT : 0);
}

/* The number may be watched already, or mean another file by now: nobody announces that of a foreign descriptor. epoll
 * reports at once what is ready already. */
static bool watch_edges(mr_loop *loop, mr_ring *state, const mr_descriptor *descriptor)
{
    bool is_foreign = descriptor->generation == 0; /* here an operation waits only for writability */
    struct epoll_event event = {.events = is_foreign ? EPOLLOUT | EPOLLONESHOT : events_of(descriptor) | EPOLLET,
                                .data.fd = descriptor->number};
    mr_count(&loop->counters.system_calls, 1);
    return epoll_ctl(state->edges, EPOLL_CTL_MOD, descriptor->number, &event) == 0 ||
           epoll_ctl(state->edges, EPOLL_CTL_ADD, descriptor->number, &event) == 0;
}

static void unwatch_edges(mr_loop *loop, const mr_descriptor *descriptor)
{
    mr_count(&loop->counters.system_calls, 1);
    epoll_ctl(mr_ring_of(loop)->edges, EPOLL_CTL_DEL, descriptor->number, NULL);
}

bool mr_ring_wait_for_edge(mr_loop *loop, mr_slot *slot)
{
    mr_ring *state = mr_ring_of(loop);
    mr_descriptor *descriptor = slot->descriptor;
    bool *is_watched = &mr_ring_descriptor_of(descriptor)->is_watched_for[mr_direction_of(slot->request.kind)];
    if (*is_watched && mr_perform(loop, slot))
        return true;
    if (!*is_watched) {
        *is_watched = descriptor->generation != 0;
        if (!watch_edges(loop, state, descriptor)) {
            *is_watched = false;
            return false;
        }
    }
    mr_ring_slot_of(slot)->queue = AWAITS_EDGE;
    state->edges_waiting++;
    return true;
}

void mr_ring_leave_edges(mr_ring *state, mr_slot *slot)
{
    MR_CHECK(state->edges_waiting > 0);
    mr_ring_slot_of(slot)->queue = IN_NO_QUEUE;
    mr_ring_slot_of(slot)->awaits_writable = false;
    state->edges_waiting--;
}

/* Closing the descriptor would be enough, unless a child process has inherited the open file. */
void mr_ring_detach(mr_loop *loop, mr_descriptor *descriptor)
{
    if (!events_of(descriptor))
        return;
    unwatch_edges(loop, descriptor);
    mr_ring_descriptor_of(descriptor)->is_watched_for[MR_READING] =
        mr_ring_descriptor_of(descriptor)->is_watched_for[MR_WRITING] = false;
}

void mr_ring_arm_edges(mr_loop *loop, mr_ring *state)
{
    struct io_uring_sqe *entry = state->edges_armed || !state->edges_waiting ? NULL : mr_ring_next_entry(loop, state);
    if (!entry)
        return;
    io_uring_prep_poll_add(entry, state->edges, POLLIN);
    entry->user_data = TAG_EDGES;
    state->edges_armed = true;
}

/* Each operation is attempted again. So an event of another file, which had this number before, does no harm. */
static bool serve_edges(mr_loop *loop, mr_ring *state, mr_descriptor *descriptor, int direction)
{
    bool has_served = false;
    for (mr_slot *slot = descriptor->first[direction], *next; slot; slot = next) {
        next = slot->next;
        if (mr_ring_slot_of(slot)->queue != AWAITS_EDGE)
            continue;
        mr_ring_leave_edges(state, slot);
        mr_ring_submit(loop, slot);
        has_served = true;
    }
    return has_served;
}

/* A direction in which no operation waits is watched no longer. The next operation that waits there learns at once what
 * is ready already. */
static void note_edge(mr_loop *loop, mr_ring *state, const struct epoll_event *event)
{
    static const uint32_t events[MR_DIRECTIONS] = {EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR,
                                                   EPOLLOUT | EPOLLHUP | EPOLLERR};
    mr_descriptor *descriptor = mr_loop_descriptor(loop, event->data.fd);
    bool has_changed = false;
    for (int direction = 0; direction < MR_DIRECTIONS; direction++) {
        bool is_reported = event->events & events[direction];
        if (!is_reported || serve_edges(loop, state, descriptor, direction))
            continue;
        has_changed |= mr_ring_descriptor_of(descriptor)->is_watched_for[direction];
        mr_ring_descriptor_of(descriptor)->is_watched_for[direction] = false;
    }
    if (!has_changed)
        return;
    if (!events_of(descriptor))
        unwatch_edges(loop, descriptor);
    else
        watch_edges(loop, state, descriptor);
}

void mr_ring_note_edges(mr_loop *loop, mr_ring *state)
{
    struct epoll_event events[REAP];
    mr_count(&loop->counters.system_calls, 1);
    int count = epoll_wait(state->edges, events, REAP, 0);
    state->edges_armed = false;
    for (int i = 0; i < count; i++)
        note_edge(loop, state, &events[i]);
}
