/*
 * hybrid.c: the backend that uses epoll for sockets and io_uring for files.
 *
 * If a loop's owner changes threads, epoll costs less than io_uring with many sockets (decision 20). But epoll cannot
 * wait for files. epoll also watches the ring, so one wait serves both.
 */
#include "../../attempt.h"
#include "../../epoll_poller.h"
#include "../../eventfd.h"
#include "../../backend.h"
#include "files.h"

#include <errno.h>
#include <stdlib.h>

static mr_files *files_of(const mr_loop *loop)
{
    return loop->backend_state;
}

static int probe(char *reason, size_t reason_size)
{
    int error = mr_epoll_probe(reason, reason_size);
    return error ? error : mr_uring_probe(reason, reason_size);
}

static int open_all(mr_loop *loop, mr_files *files)
{
    int error = mr_epoll_open(loop);
    if (error)
        return error;
    error = mr_files_open(files);
    if (!error && (error = mr_epoll_add_companion(loop, files->ring.ring_fd)))
        mr_files_close(files);
    if (error)
        mr_epoll_close(loop);
    return error;
}

static int create(mr_loop *loop)
{
    mr_files *files = malloc(sizeof *files);
    if (!files)
        return -ENOMEM;
    int error = open_all(loop, files);
    if (error)
        free(files);
    else
        loop->backend_state = files;
    return error;
}

static void destroy(mr_loop *loop)
{
    mr_files_close(files_of(loop));
    mr_epoll_close(loop);
    free(files_of(loop));
}

static void abandon(mr_loop *loop)
{
    mr_files_abandon(files_of(loop));
    mr_epoll_close(loop);
    free(files_of(loop));
}

static void submit(mr_loop *loop, mr_slot *slot)
{
    if (mr_is_on_file(slot->request.kind))
        mr_files_submit(loop, files_of(loop), slot);
    else
        mr_readiness_submit(loop, slot, &mr_epoll_poller);
}

static void cancel(mr_loop *loop, mr_slot *slot)
{
    if (mr_is_on_file(slot->request.kind))
        mr_files_cancel(loop, files_of(loop), slot);
    else
        mr_readiness_cancel(loop, slot, &mr_epoll_poller);
}

static void detach(mr_loop *loop, mr_descriptor *descriptor)
{
    mr_readiness_detach(loop, descriptor, &mr_epoll_poller);
}

static bool flush(mr_loop *loop)
{
    bool is_all_handed_over = mr_files_flush(loop, files_of(loop));
    return mr_readiness_flush(loop, &mr_epoll_poller) && is_all_handed_over;
}

static void poll_both(mr_loop *loop)
{
    mr_files_flush(loop, files_of(loop));
    mr_readiness_poll(loop, &mr_epoll_poller);
    mr_files_reap(loop, files_of(loop));
}

static bool has_work(mr_loop *loop)
{
    return mr_readiness_has_work(loop) || mr_files_have_work(files_of(loop));
}

static void check(const mr_loop *loop)
{
    mr_readiness_check(loop);
    mr_files_check(loop, files_of(loop));
}

const mr_backend_operations mr_hybrid_backend = {
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
    .poll = poll_both,
    .flush = flush,
    .has_work = has_work,
    .check = check,
    .wait = mr_epoll_wait,
    .wake = mr_eventfd_ring,
};
