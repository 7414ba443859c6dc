/* epoll.c: the backend that waits for readiness by epoll, and carries out operations by system calls. */
#include "../attempt.h"
#include "../backend.h"
#include "../epoll_poller.h"
#include "../eventfd.h"

static void submit(mr_loop *loop, mr_slot *slot)
{
    mr_readiness_submit(loop, slot, &mr_epoll_poller);
}

static void cancel(mr_loop *loop, mr_slot *slot)
{
    mr_readiness_cancel(loop, slot, &mr_epoll_poller);
}

static void detach(mr_loop *loop, mr_descriptor *descriptor)
{
    mr_readiness_detach(loop, descriptor, &mr_epoll_poller);
}

static void poll_events(mr_loop *loop)
{
    mr_readiness_poll(loop, &mr_epoll_poller);
}

static bool flush(mr_loop *loop)
{
    return mr_readiness_flush(loop, &mr_epoll_poller);
}

const mr_backend_operations mr_epoll_backend = {
    .probe = mr_epoll_probe,
    .create = mr_epoll_open,
    .destroy = mr_epoll_close,
    .abandon = mr_epoll_close,
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
    .wait = mr_epoll_wait,
    .wake = mr_eventfd_ring,
};
