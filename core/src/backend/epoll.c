/* epoll.c: Linux's readiness reports; the policy is in readiness.c. */
#include "../backend.h"
#include "../eventfd.h"
#include "../readiness.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define WAKE_TAG UINT64_MAX /* no handle: a generation is less than 2^31 */

static int epoll_of(const mr_loop *loop)
{
    return (int)(intptr_t)loop->backend_state;
}

static int watch(mr_loop *loop, int number, uint64_t tag, mr_watch mode, bool reading, bool writing)
{
    struct epoll_event event = {.data.u64 = tag};
    event.events = mode == MR_WATCH_EDGES ? EPOLLET | EPOLLPRI : EPOLLONESHOT;
    if (reading)
        event.events |= EPOLLIN | EPOLLRDHUP;
    if (writing)
        event.events |= EPOLLOUT;
    /* Who waits once will wait again: then the descriptor is registered already. */
    int first = mode == MR_WATCH_ONCE ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int second = mode == MR_WATCH_ONCE ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(epoll_of(loop), first, number, &event) == 0)
        return 0;
    if ((errno == EEXIST || errno == ENOENT) && epoll_ctl(epoll_of(loop), second, number, &event) == 0)
        return 0;
    return -errno;
}

static void unwatch(mr_loop *loop, int number)
{
    epoll_ctl(epoll_of(loop), EPOLL_CTL_DEL, number, NULL);
}

static int fetch(mr_loop *loop, mr_readiness_event *events, int capacity)
{
    struct epoll_event found[256];
    int limit = capacity < 256 ? capacity : 256;
    int count = epoll_wait(epoll_of(loop), found, limit, 0);
    int taken = 0;
    for (int i = 0; i < count; i++) {
        uint32_t bits = found[i].events;
        if (found[i].data.u64 == WAKE_TAG) {
            mr_eventfd_drain(loop);
            continue;
        }
        events[taken++] = (mr_readiness_event){
            .tag = found[i].data.u64,
            .readable = bits & (EPOLLIN | EPOLLRDHUP | EPOLLPRI),
            .writable = bits & (EPOLLOUT | EPOLLHUP | EPOLLERR),
            .hang_up = bits & (EPOLLHUP | EPOLLERR | EPOLLRDHUP | EPOLLPRI),
            .is_shut = bits & EPOLLRDHUP,
        };
    }
    return taken;
}

static const mr_poller poller = {.watch = watch, .unwatch = unwatch, .fetch = fetch, .short_means_empty = true};

static int probe(char *reason, size_t reason_size)
{
    int descriptor = epoll_create1(EPOLL_CLOEXEC);
    if (descriptor < 0) {
        int error = errno;
        if (reason)
            snprintf(reason, reason_size, "epoll_create1 failed: %s", strerror(error));
        return -error;
    }
    close(descriptor);
    return 0;
}

static int create(mr_loop *loop)
{
    int error = mr_eventfd_open(loop);
    if (error)
        return error;
    int descriptor = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_TAG};
    if (descriptor >= 0 && epoll_ctl(descriptor, EPOLL_CTL_ADD, loop->wake_descriptor, &event) == 0) {
        loop->backend_state = (void *)(intptr_t)descriptor;
        return 0;
    }
    error = -errno;
    if (descriptor >= 0)
        close(descriptor);
    mr_eventfd_close(loop);
    return error;
}

static void destroy(mr_loop *loop)
{
    close(epoll_of(loop));
    mr_eventfd_close(loop);
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

/* Not epoll_wait: it would consume edges, and only the owner may do that. An epoll descriptor can itself be polled. */
static void wait_for_events(const mr_loop *loop, uint64_t until_ns)
{
    mr_readiness_wait(epoll_of(loop), until_ns);
}

const mr_backend_operations mr_epoll_backend = {
    .probe = probe,
    .create = create,
    .destroy = destroy,
    .abandon = destroy, /* closing our copy of the descriptor does not touch the parent's registrations */
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
    .wake = mr_eventfd_ring,
};
