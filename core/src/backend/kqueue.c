/*
 * kqueue.c: the backend of FreeBSD, NetBSD 10 and macOS. It fetches readiness events; readiness.c decides what to do
 * with them.
 *
 * See kqueue(2). Reading and writing have a filter each. With EV_CLEAR a filter reports edges; with EV_ONESHOT it
 * reports one event and is removed. With EV_RECEIPT, kevent returns a result for each change and fetches no events.
 */
#include "../attempt.h"
#include "../backend.h"
#include "../readiness.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/event.h>
#include <time.h>
#include <unistd.h>

static_assert(sizeof(void *) >= sizeof(uint64_t), "a tag fits into udata");

static int queue_of(const mr_loop *loop)
{
    return (int)(intptr_t)loop->backend_state;
}

static struct kevent change_of(int number, short filter, unsigned short flags, uint64_t tag)
{
    struct kevent change;
    EV_SET(&change, (uintptr_t)number, filter, flags | EV_RECEIPT, 0, 0, (void *)(uintptr_t)tag);
    return change;
}

/* Makes changes. Returns the first error. ENOENT is none: it means that a filter to be deleted does not exist. */
static int apply(int queue, struct kevent *changes, int count)
{
    if (kevent(queue, changes, count, changes, count, NULL) < 0)
        return -errno;
    int error = 0;
    for (int i = 0; i < count; i++)
        if (changes[i].data && changes[i].data != ENOENT && !error)
            error = -(int)changes[i].data;
    return error;
}

static int watch(mr_loop *loop, int number, uint64_t tag, mr_watch mode, bool reading, bool writing)
{
    unsigned short add = EV_ADD | (mode == MR_WATCH_EDGES ? EV_CLEAR : EV_ONESHOT);
    struct kevent changes[] = {
        change_of(number, EVFILT_READ, reading ? add : EV_DELETE, tag),
        change_of(number, EVFILT_WRITE, writing ? add : EV_DELETE, tag),
    };
    return apply(queue_of(loop), changes, 2);
}

static void unwatch(mr_loop *loop, int number)
{
    watch(loop, number, 0, MR_WATCH_EDGES, false, false);
}

static int fetch(mr_loop *loop, mr_readiness_event *events, int capacity)
{
    struct kevent found[256];
    int taken = 0, limit = capacity < 256 ? capacity : 256;
    int count = kevent(queue_of(loop), NULL, 0, found, limit, &(struct timespec){0});
    for (int i = 0; i < count; i++) {
        if (found[i].filter == EVFILT_USER)
            continue; /* a wake; EV_CLEAR has reset it */
        /* EV_EOF needs no special case: the operation is tried again, and finds the end of the stream. */
        events[taken++] = (mr_readiness_event){
            .tag = (uint64_t)(uintptr_t)found[i].udata,
            .readable = found[i].filter == EVFILT_READ,
            .writable = found[i].filter == EVFILT_WRITE,
        };
    }
    return taken;
}

/* A receive stops early at urgent data, which not every system reports as an event. So a receive that does not fill its
 * buffer does not prove that the socket is empty. */
static const mr_poller poller = {.watch = watch, .unwatch = unwatch, .fetch = fetch, .short_means_empty = false};

static int open_queue(void)
{
    int queue = kqueue();
    if (queue < 0)
        return -errno;
    struct kevent wake = change_of(0, EVFILT_USER, EV_ADD | EV_CLEAR, 0);
    int error = apply(queue, &wake, 1);
    if (!error)
        return queue;
    close(queue);
    return error;
}

static int probe(char *reason, size_t reason_size)
{
    int queue = open_queue();
    if (queue < 0) {
        if (reason)
            snprintf(reason, reason_size, "kqueue with EVFILT_USER is not available: %s", strerror(-queue));
        return queue;
    }
    close(queue);
    return 0;
}

static int create(mr_loop *loop)
{
    int queue = open_queue();
    loop->backend_state = (void *)(intptr_t)queue;
    return queue < 0 ? queue : 0;
}

static void destroy(mr_loop *loop)
{
    close(queue_of(loop));
}

static void abandon(mr_loop *loop)
{
    (void)loop; /* a child does not inherit the queue, and another file may have its number */
}

static void submit(mr_loop *loop, mr_slot *slot)
{
    mr_readiness_submit(loop, slot, &poller);
}

static void cancel(mr_loop *loop, mr_slot *slot)
{
    mr_readiness_cancel(loop, slot, &poller);
}

static void detach(mr_loop *loop, mr_descriptor *descriptor)
{
    mr_readiness_detach(loop, descriptor, &poller);
}

static void poll_events(mr_loop *loop)
{
    mr_readiness_poll(loop, &poller);
}

static bool flush(mr_loop *loop)
{
    return mr_readiness_flush(loop, &poller);
}

/* Waits with poll on the queue's descriptor. kevent would consume the events, and only the loop's owner may do that. */
static void wait_for_events(const mr_loop *loop, uint64_t until_ns)
{
    mr_readiness_wait(queue_of(loop), until_ns);
}

static void wake(mr_loop *loop)
{
    struct kevent trigger;
    EV_SET(&trigger, 0, EVFILT_USER, 0, NOTE_TRIGGER, 0, NULL);
    kevent(queue_of(loop), &trigger, 1, NULL, 0, NULL);
}

const mr_backend_operations mr_kqueue_backend = {
    .probe = probe,
    .create = create,
    .destroy = destroy,
    .abandon = abandon,
    .submit = submit,
    .sends_first = true,
    .cancel = cancel,
    .attempt = mr_readiness_attempt,
    .detach = detach,
    .close = mr_descriptor_close,
    .poll = poll_events,
    .flush = flush,
    .has_work = mr_readiness_has_work,
    .check = mr_readiness_check,
    .wait = wait_for_events,
    .wake = wake,
};
