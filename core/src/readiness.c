/*
 * readiness.c: try, park, retry, for all systems that report readiness. Must not know: backends, epoll, kqueue.
 *
 * An operation is attempted at once, unless the loop knows that it would block; an MR_SEND_THEN_RECEIVE sends with the
 * next poll. If it would block, it stays on its descriptor's list and is attempted again when the poller reports an
 * edge. An adopted descriptor is watched from the first time an operation waits on it until it is closed, so waiting
 * costs no system call. A foreign descriptor, which others may close without notice, is watched for one event at a
 * time.
 */
#include "readiness.h"
#include "attempt.h"
#include "clock.h"
#include "millrace_check.h"
#include "perform.h"
#include "send_then_receive.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <time.h>

/* A send does its TCP work within the system call: 32 of them take about a tenth of a millisecond of the owner's
 * time. */
enum { EVENTS_PER_POLL = 64, UNUSED_EVENTS_MAX = 2, UNSENT_MAX = 32 };

static mr_readiness_descriptor *readiness_of(const mr_descriptor *descriptor)
{
    static_assert(sizeof(mr_readiness_descriptor) <= sizeof descriptor->backend_data, "it fits");
    return (mr_readiness_descriptor *)&descriptor->backend_data;
}

/*
 * If only EAGAIN means empty, each message costs a second system call. On a TCP socket that is watched for edges, a
 * receive that did not fill its buffer has emptied the socket too: bytes that arrive later make another edge (epoll(7),
 * question 9). Exceptions are receives that may stop early with more to come: at the end of the stream, at urgent data,
 * on Unix sockets (between messages with credentials or descriptors) and on datagrams.
 */
static void note_transfer(mr_descriptor *descriptor, const mr_slot *slot, int64_t result)
{
    if (slot->request.kind != MR_RECV || !readiness_of(descriptor)->is_watched || !readiness_of(descriptor)->is_tcp ||
        readiness_of(descriptor)->may_hide_data)
        return;
    if (result > 0 && (uint64_t)result < slot->request.length)
        readiness_of(descriptor)->exhausted[MR_READING] = true;
}

int64_t mr_readiness_attempt(mr_loop *loop, mr_slot *slot)
{
    mr_descriptor *descriptor = slot->descriptor;
    mr_kind kind = slot->request.kind;
    int64_t result = mr_attempt(loop, slot);
    if (!descriptor) /* MR_NOW */
        return result;
    if (result == -EAGAIN && readiness_of(descriptor)->is_shut)
        result = mr_when_shut(kind, MR_READING);
    if (result != -EAGAIN)
        note_transfer(descriptor, slot, result);
    else if (!mr_is_wait(kind) || readiness_of(descriptor)->is_watched)
        readiness_of(descriptor)->exhausted[mr_direction_of(kind)] = true;
    return result;
}

static bool is_tcp(mr_loop *loop, int number)
{
#ifdef SO_PROTOCOL
    int protocol = 0;
    socklen_t size = sizeof protocol;
    mr_count(&loop->counters.system_calls, 1);
    return getsockopt(number, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
#else
    (void)loop, (void)number;
    return false; /* a socket that is not known to be TCP is read until EAGAIN */
#endif
}

static int watch_edges(mr_loop *loop, mr_descriptor *descriptor, const mr_poller *poller)
{
    mr_handle tag = mr_handle_make(descriptor->number, descriptor->generation);
    mr_count(&loop->counters.system_calls, 1);
    int error = poller->watch(loop, descriptor->number, tag, MR_WATCH_EDGES, true, true);
    if (error)
        return error;
    readiness_of(descriptor)->is_watched = true;
    readiness_of(descriptor)->is_one_shot = false;
    readiness_of(descriptor)->is_tcp = poller->short_means_empty && is_tcp(loop, descriptor->number);
    return 0;
}

/* Asks for one event on a foreign descriptor, in the directions in which operations wait, or for none if none wait. */
static int watch_once(mr_loop *loop, mr_descriptor *descriptor, const mr_poller *poller)
{
    bool reading = descriptor->first[MR_READING], writing = descriptor->first[MR_WRITING];
    mr_count(&loop->counters.system_calls, 1);
    if (reading || writing) {
        int error = poller->watch(loop, descriptor->number, mr_handle_foreign(descriptor->number), MR_WATCH_ONCE,
                                  reading, writing);
        readiness_of(descriptor)->is_one_shot = !error;
        return error;
    }
    if (readiness_of(descriptor)->is_one_shot)
        poller->unwatch(loop, descriptor->number);
    readiness_of(descriptor)->is_one_shot = false;
    return 0;
}

static int watch_descriptor(mr_loop *loop, mr_descriptor *descriptor, const mr_poller *poller)
{
    if (descriptor->generation == 0)
        return watch_once(loop, descriptor, poller);
    return readiness_of(descriptor)->is_watched ? 0 : watch_edges(loop, descriptor, poller);
}

static void attempt_or_watch(mr_loop *loop, mr_slot *slot, const mr_poller *poller)
{
    mr_descriptor *descriptor = slot->descriptor;
    readiness_of(descriptor)->unused_events = 0;
    bool has_tried =
        mr_is_performed_first(slot, readiness_of(descriptor)->exhausted[mr_direction_of(slot->request.kind)]);
    if (has_tried && mr_perform(loop, slot))
        return;
    int error = watch_descriptor(loop, descriptor, poller);
    /* A descriptor that cannot be watched, such as a regular file, is always ready: the attempt succeeds. */
    if (error && (has_tried || !mr_perform(loop, slot)))
        mr_loop_settle(loop, slot, error);
}

/*
 * MR_SEND_THEN_RECEIVE operations send together, when the loop is polled. So the threads that submit them run one after
 * the other, without a system call in between that would displace their code from the processor's caches; the sends
 * follow one after the other, too. Decision 18.
 */
static void push_unsent(mr_loop *loop, mr_slot *slot)
{
    mr_slot_queue_push(&loop->unsent, slot);
    loop->unsent_count++;
}

static void remove_unsent(mr_loop *loop, mr_slot *slot)
{
    mr_slot_queue_remove(&loop->unsent, slot);
    loop->unsent_count--;
}

static void send_all(mr_loop *loop, const mr_poller *poller)
{
    while (loop->unsent.first) {
        mr_slot *slot = loop->unsent.first;
        remove_unsent(loop, slot);
        if (mr_send_then_receive_begin(loop, slot))
            attempt_or_watch(loop, slot, poller);
    }
}

void mr_readiness_submit(mr_loop *loop, mr_slot *slot, const mr_poller *poller)
{
    if (slot->request.kind != MR_SEND_THEN_RECEIVE) {
        attempt_or_watch(loop, slot, poller);
        return;
    }
    push_unsent(loop, slot);
    if (loop->unsent_count == UNSENT_MAX)
        send_all(loop, poller);
}

/* An operation that backs off waits for its timer. An MR_SEND_THEN_RECEIVE that has yet to send waits for the next
 * poll, and one on a file for the disk. */
static bool awaits_event(const mr_slot *slot)
{
    return slot->state == MR_SLOT_PENDING && slot->request.kind != MR_SEND_THEN_RECEIVE &&
           !mr_is_on_file(slot->request.kind);
}

/* Ends the waiting operations of one direction without another attempt. On a foreign descriptor, where only waits are
 * allowed, an event completes them with 0. */
static void end_waiting(mr_loop *loop, mr_descriptor *descriptor, int direction, int result)
{
    for (mr_slot *slot = descriptor->first[direction], *next; slot; slot = next) {
        next = slot->next;
        if (awaits_event(slot))
            mr_loop_settle(loop, slot, result);
    }
}

/* Ends the waiting operations if watching has failed: without an event they would wait for ever. */
static void end_if_unwatched(mr_loop *loop, mr_descriptor *descriptor, int error)
{
    if (!error)
        return;
    end_waiting(loop, descriptor, MR_READING, error);
    end_waiting(loop, descriptor, MR_WRITING, error);
}

void mr_readiness_cancel(mr_loop *loop, mr_slot *slot, const mr_poller *poller)
{
    mr_descriptor *descriptor = slot->descriptor;
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        remove_unsent(loop, slot);
    mr_perform_last(loop, slot);
    if (readiness_of(descriptor)->is_one_shot)
        end_if_unwatched(loop, descriptor, watch_once(loop, descriptor, poller));
}

void mr_readiness_detach(mr_loop *loop, mr_descriptor *descriptor, const mr_poller *poller)
{
    /* Closing the descriptor would be enough, unless a child process has inherited the open file. */
    if (readiness_of(descriptor)->is_watched || readiness_of(descriptor)->is_one_shot) {
        mr_count(&loop->counters.system_calls, 1);
        poller->unwatch(loop, descriptor->number);
    }
    readiness_of(descriptor)->is_watched = readiness_of(descriptor)->is_one_shot = false;
}

/* Retries the operations of one direction, oldest first, until one would block. */
static void serve(mr_loop *loop, mr_descriptor *descriptor, int direction)
{
    readiness_of(descriptor)->exhausted[direction] = false;
    bool blocked = false;
    for (mr_slot *slot = descriptor->first[direction], *next; slot; slot = next) {
        next = slot->next;
        if (!awaits_event(slot) || (blocked && !mr_is_wait(slot->request.kind)))
            continue;
        if (!mr_perform(loop, slot))
            blocked = true;
    }
}

/* Acts on the one event of a foreign descriptor. The registration stays, without events, until the next wait or the
 * close. The end of the peer's stream concerns only operations that read. */
static void act_on_foreign(mr_loop *loop, mr_descriptor *descriptor, const mr_readiness_event *event,
                           const mr_poller *poller)
{
    readiness_of(descriptor)->is_one_shot = false;
    if (event->readable || event->hang_up)
        end_waiting(loop, descriptor, MR_READING, 0);
    if (event->writable)
        end_waiting(loop, descriptor, MR_WRITING, 0);
    if (descriptor->first[MR_READING] || descriptor->first[MR_WRITING])
        end_if_unwatched(loop, descriptor, watch_once(loop, descriptor, poller));
}

/* Watches an adopted descriptor on which a wait began before the loop first used its handle. The one event of that wait
 * has come; operations that still wait do so as on any handle. */
static void watch_as_own(mr_loop *loop, mr_descriptor *descriptor, const mr_poller *poller)
{
    readiness_of(descriptor)->is_one_shot = false;
    if (!readiness_of(descriptor)->is_watched && (descriptor->first[MR_READING] || descriptor->first[MR_WRITING]))
        end_if_unwatched(loop, descriptor, watch_edges(loop, descriptor, poller));
}

/*
 * Stops watching a descriptor after several events without a waiting operation. Perhaps another loop uses it by now,
 * and each event wakes this loop for nothing. The next operation that waits watches it again, and the poller then
 * reports what is ready already.
 */
static void note_unused(mr_loop *loop, mr_descriptor *descriptor, const mr_poller *poller)
{
    if (!readiness_of(descriptor)->is_watched || ++readiness_of(descriptor)->unused_events < UNUSED_EVENTS_MAX)
        return;
    mr_readiness_detach(loop, descriptor, poller);
    readiness_of(descriptor)->exhausted[MR_READING] = readiness_of(descriptor)->exhausted[MR_WRITING] = false;
}

static void act_on(mr_loop *loop, const mr_readiness_event *event, const mr_poller *poller)
{
    mr_descriptor *descriptor = mr_loop_descriptor(loop, mr_handle_descriptor(event->tag));
    uint32_t generation = mr_handle_generation(event->tag);
    bool was_foreign = descriptor && generation == 0 && readiness_of(descriptor)->is_one_shot;
    if (!descriptor || (descriptor->generation != generation && !was_foreign))
        return; /* an event of an earlier descriptor with this number */
    if (descriptor->generation == 0) {
        act_on_foreign(loop, descriptor, event, poller);
        return;
    }
    if (event->hang_up)
        readiness_of(descriptor)->may_hide_data = true;
    if (event->is_shut && readiness_of(descriptor)->is_watched && !readiness_of(descriptor)->is_tcp)
        readiness_of(descriptor)->is_shut = true;
    if (!descriptor->first[MR_READING] && !descriptor->first[MR_WRITING])
        note_unused(loop, descriptor, poller);
    if (event->readable || event->hang_up)
        serve(loop, descriptor, MR_READING);
    if (event->writable || event->hang_up)
        serve(loop, descriptor, MR_WRITING);
    if (was_foreign)
        watch_as_own(loop, descriptor, poller);
}

/* With thousands of descriptors, the record of one is in no cache when its event comes. */
static void prefetch_descriptor(mr_loop *loop, const mr_readiness_event *event)
{
    const mr_descriptor *descriptor = mr_loop_descriptor(loop, mr_handle_descriptor(event->tag));
    if (!descriptor)
        return;
    __builtin_prefetch(descriptor, 1);
    __builtin_prefetch((const char *)descriptor->timers - 1, 1); /* records are not aligned to lines */
}

static void prefetch_waiting(mr_loop *loop, const mr_readiness_event *event)
{
    const mr_descriptor *descriptor = mr_loop_descriptor(loop, mr_handle_descriptor(event->tag));
    const char *slot = (const char *)(descriptor ? descriptor->first[MR_READING] : NULL);
    for (size_t line = 0; slot && line < sizeof(mr_slot); line += 64)
        __builtin_prefetch(slot + line, 1);
}

void mr_readiness_poll(mr_loop *loop, const mr_poller *poller)
{
    mr_readiness_event events[EVENTS_PER_POLL];
    send_all(loop, poller);
    mr_count(&loop->counters.system_calls, 1);
    int count = poller->fetch(loop, events, EVENTS_PER_POLL);
    for (int i = 0; i < count; i++)
        prefetch_descriptor(loop, &events[i]);
    for (int i = 0; i < count; i++) {
        if (i + 1 < count)
            prefetch_waiting(loop, &events[i + 1]);
        act_on(loop, &events[i], poller);
    }
}

bool mr_readiness_flush(mr_loop *loop, const mr_poller *poller)
{
    send_all(loop, poller);
    return true;
}

void mr_readiness_check(const mr_loop *loop)
{
    const mr_slot *last = NULL;
    uint32_t count = 0;
    for (const mr_slot *slot = loop->unsent.first; slot; last = slot, slot = slot->queued, count++)
        MR_CHECK(slot->state == MR_SLOT_PENDING && slot->request.kind == MR_SEND_THEN_RECEIVE &&
                 count < loop->unsent_count);
    MR_CHECK(count == loop->unsent_count && loop->unsent.last == last);
}

/* Readiness events that are already pending need not count here: mr_loop_wait returns at once when there are any. */
bool mr_readiness_has_work(mr_loop *loop)
{
    return loop->unsent.first != NULL;
}

#ifdef __APPLE__ /* no ppoll: whole milliseconds, rounded up so that nobody wakes early and spins */
void mr_readiness_wait(int descriptor, uint64_t until_ns)
{
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    uint64_t left_ms = (mr_clock_left_ns(until_ns) + 999999) / 1000000;
    poll(&entry, 1, until_ns == MR_NEVER_NS ? -1 : left_ms < INT_MAX ? (int)left_ms : INT_MAX);
}
#else
void mr_readiness_wait(int descriptor, uint64_t until_ns)
{
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    uint64_t left_ns = mr_clock_left_ns(until_ns);
    struct timespec limit = {.tv_sec = (time_t)(left_ns / MR_NS_PER_S), .tv_nsec = (long)(left_ns % MR_NS_PER_S)};
    ppoll(&entry, 1, until_ns == MR_NEVER_NS ? NULL : &limit, NULL);
}
#endif
