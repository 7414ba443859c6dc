/* epoll_poller.c: see epoll_poller.h. Must not know: backends. */
#include "epoll_poller.h"
#include "eventfd.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Tags that no handle equals: a generation is less than 2^31. */
#define TAG_WAKE      UINT64_MAX
#define TAG_COMPANION (UINT64_MAX - 1)

static int watch(mr_loop *loop, int number, uint64_t tag, mr_watch mode, bool reading, bool writing)
{
    struct epoll_event event = {.data.u64 = tag};
    event.events = mode == MR_WATCH_EDGES ? EPOLLET | EPOLLPRI : EPOLLONESHOT;
    if (reading)
        event.events |= EPOLLIN | EPOLLRDHUP;
    if (writing)
        event.events |= EPOLLOUT;
    /* A thread that waits once usually waits again: then the descriptor is registered already, and MOD succeeds. */
    int first = mode == MR_WATCH_ONCE ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int second = mode == MR_WATCH_ONCE ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(loop->poll_descriptor, first, number, &event) == 0)
        return 0;
    if ((errno == EEXIST || errno == ENOENT) && epoll_ctl(loop->poll_descriptor, second, number, &event) == 0)
        return 0;
    return -errno;
}

static void unwatch(mr_loop *loop, int number)
{
    epoll_ctl(loop->poll_descriptor, EPOLL_CTL_DEL, number, NULL);
}

static int fetch(mr_loop *loop, mr_readiness_event *events, int capacity)
{
    struct epoll_event found[256];
    int limit = capacity < 256 ? capacity : 256;
    int count = epoll_wait(loop->poll_descriptor, found, limit, 0);
    int taken = 0;
    for (int i = 0; i < count; i++) {
        uint32_t bits = found[i].events;
        if (found[i].data.u64 == TAG_WAKE)
            mr_eventfd_drain(loop);
        if (found[i].data.u64 == TAG_WAKE || found[i].data.u64 == TAG_COMPANION)
            continue;
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

const mr_poller mr_epoll_poller = {.watch = watch, .unwatch = unwatch, .fetch = fetch, .short_means_empty = true};

int mr_epoll_probe(char *reason, size_t reason_size)
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

static int add(int epoll, int number, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event) == 0 ? 0 : -errno;
}

int mr_epoll_open(mr_loop *loop)
{
    int error = mr_eventfd_open(loop);
    if (error)
        return error;
    loop->poll_descriptor = epoll_create1(EPOLL_CLOEXEC);
    error = loop->poll_descriptor < 0 ? -errno : add(loop->poll_descriptor, loop->wake_descriptor, TAG_WAKE);
    if (!error)
        return 0;
    if (loop->poll_descriptor >= 0)
        close(loop->poll_descriptor);
    mr_eventfd_close(loop);
    return error;
}

int mr_epoll_add_companion(mr_loop *loop, int number)
{
    return add(loop->poll_descriptor, number, TAG_COMPANION);
}

void mr_epoll_close(mr_loop *loop)
{
    close(loop->poll_descriptor);
    mr_eventfd_close(loop);
}

/* Do not call epoll_wait here: it would consume edges, and only the owner may do that. An epoll descriptor can itself
 * be polled. */
void mr_epoll_wait(const mr_loop *loop, uint64_t until_ns)
{
    mr_readiness_wait(loop->poll_descriptor, until_ns);
}
