/* backend.c: lists the backends, finds out which of them work here, and chooses one. Must not know: system calls. */
#include "backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const backend_names[MR_BACKEND_COUNT] = {
    [MR_BACKEND_AUTO] = "auto",     [MR_BACKEND_IO_URING] = "io_uring", [MR_BACKEND_EPOLL] = "epoll",
    [MR_BACKEND_HYBRID] = "hybrid", [MR_BACKEND_KQUEUE] = "kqueue",     [MR_BACKEND_IOCP] = "iocp",
    [MR_BACKEND_SIM] = "sim",
};

/* NULL for auto, and for backends of other systems. */
static const mr_backend_operations *const backends[MR_BACKEND_COUNT] = {
#ifdef MR_HAS_IO_URING
    [MR_BACKEND_IO_URING] = &mr_io_uring_backend,
#endif
#ifdef MR_HAS_EPOLL
    [MR_BACKEND_EPOLL] = &mr_epoll_backend,
#endif
#ifdef MR_HAS_HYBRID
    [MR_BACKEND_HYBRID] = &mr_hybrid_backend,
#endif
#ifdef MR_HAS_KQUEUE
    [MR_BACKEND_KQUEUE] = &mr_kqueue_backend,
#endif
#ifdef MR_HAS_IOCP
    [MR_BACKEND_IOCP] = &mr_iocp_backend,
#endif
#ifdef MR_HAS_SIM
    [MR_BACKEND_SIM] = &mr_sim_backend,
#endif
};

enum { CANDIDATES = 4 };

/* In order of preference. With many sockets, a ring whose owner changes threads costs more than epoll (decision 20). */
static const mr_backend candidates[][CANDIDATES] = {
    [MR_OWNERS_CHANGE] = {MR_BACKEND_HYBRID, MR_BACKEND_EPOLL, MR_BACKEND_KQUEUE, MR_BACKEND_IOCP},
    [MR_OWNERS_ARE_FIXED] = {MR_BACKEND_IO_URING, MR_BACKEND_EPOLL, MR_BACKEND_KQUEUE, MR_BACKEND_IOCP},
};

static bool is_real(mr_backend backend)
{
    return backend > MR_BACKEND_AUTO && backend < MR_BACKEND_COUNT;
}

const char *mr_backend_name(mr_backend backend)
{
    return is_real(backend) || backend == MR_BACKEND_AUTO ? backend_names[backend] : "unknown";
}

int mr_backend_parse(const char *name, mr_backend *backend)
{
    for (int i = 0; i < MR_BACKEND_COUNT; i++) {
        if (strcmp(name, backend_names[i]) == 0) {
            *backend = (mr_backend)i;
            return 0;
        }
    }
    return -EINVAL;
}

int mr_backend_probe(mr_backend backend, char *reason, size_t reason_size)
{
    if (!is_real(backend)) {
        if (reason)
            snprintf(reason, reason_size, "there is no such backend");
        return -EINVAL;
    }
    if (!backends[backend]) {
        if (reason)
            snprintf(reason, reason_size, "%s belongs to another operating system", backend_names[backend]);
        return -ENOTSUP;
    }
    return backends[backend]->probe(reason, reason_size);
}

const mr_backend_operations *mr_backend_operations_of(mr_backend backend)
{
    return backends[backend];
}

/* If the caller names no backend, MILLRACE_BACKEND may. */
static int ask_environment(mr_backend *requested)
{
    const char *from_environment = getenv("MILLRACE_BACKEND");
    if (*requested != MR_BACKEND_AUTO || !from_environment || !*from_environment)
        return 0;
    return mr_backend_parse(from_environment, requested);
}

static int probe_and_use(mr_backend backend, mr_use_backend *use, void *context)
{
    int error = mr_backend_probe(backend, NULL, 0);
    return error ? error : use(backend, context);
}

int mr_backend_use_first(mr_backend requested, mr_owners owners, mr_use_backend *use, void *context)
{
    int error = ask_environment(&requested);
    if (error)
        return error;
    if (requested != MR_BACKEND_AUTO)
        return probe_and_use(requested, use, context);
    error = -ENOSYS;
    for (size_t i = 0; error && i < CANDIDATES; i++)
        if (backends[candidates[owners][i]])
            error = probe_and_use(candidates[owners][i], use, context);
    return error;
}

static int note_choice(mr_backend backend, void *context)
{
    *(mr_backend *)context = backend;
    return 0;
}

int mr_backend_choose(mr_backend requested, mr_backend *chosen)
{
    return mr_backend_use_first(requested, MR_OWNERS_CHANGE, note_choice, chosen);
}
