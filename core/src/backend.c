/* backend.c: which backends there are, which of them works here, which one is used; and the group that uses it. */
#include "backend.h"

#include "token.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const backend_names[MR_BACKEND_COUNT] = {
    [MR_BACKEND_AUTO] = "auto",     [MR_BACKEND_IO_URING] = "io_uring", [MR_BACKEND_EPOLL] = "epoll",
    [MR_BACKEND_KQUEUE] = "kqueue", [MR_BACKEND_IOCP] = "iocp",
    [MR_BACKEND_SIM] = "sim",
};

/* NULL for auto, and for what belongs to another system. */
static const mr_backend_operations *const backends[MR_BACKEND_COUNT] = {
#ifdef MR_HAS_IO_URING
    [MR_BACKEND_IO_URING] = &mr_io_uring_backend,
#endif
#ifdef MR_HAS_EPOLL
    [MR_BACKEND_EPOLL] = &mr_epoll_backend,
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

/* In order of preference. */
static const mr_backend candidates[] = {MR_BACKEND_IO_URING, MR_BACKEND_EPOLL, MR_BACKEND_KQUEUE, MR_BACKEND_IOCP};

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

int mr_backend_choose(mr_backend requested, mr_backend *chosen)
{
    const char *from_environment = getenv("MILLRACE_BACKEND");
    if (requested == MR_BACKEND_AUTO && from_environment && *from_environment) {
        int error = mr_backend_parse(from_environment, &requested);
        if (error)
            return error;
    }
    if (requested != MR_BACKEND_AUTO) {
        *chosen = requested;
        return mr_backend_probe(requested, NULL, 0);
    }
    int error = -ENOSYS;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (!backends[candidates[i]])
            continue;
        error = mr_backend_probe(candidates[i], NULL, 0);
        *chosen = candidates[i];
        if (!error)
            break;
    }
    return error;
}

const char *mr_kind_name(mr_kind kind)
{
    static const char *const names[] = {
#define MR_KIND_TEXT(name, text) [MR_##name] = text,
        MR_OPERATIONS(MR_KIND_TEXT)
#undef MR_KIND_TEXT
    };
    return (unsigned)kind < MR_KIND_COUNT ? names[kind] : "unknown";
}

uint32_t mr_next_epoch(void)
{
    static atomic_uint epochs;
    return atomic_fetch_add_explicit(&epochs, 1, memory_order_relaxed);
}

int mr_group_on(mr_backend id, const mr_backend_operations *backend, mr_group_clock *now_ns, mr_group **result)
{
    mr_group *group = calloc(1, sizeof *group);
    if (!group)
        return -ENOMEM;
    group->backend_id = id;
    group->backend = backend;
    group->now_ns = now_ns;
    group->epoch = mr_next_epoch();
    group->handles.first_generation = (uint32_t)(mr_epoch_start(group->epoch) % INT32_MAX);
    *result = group;
    return 0;
}

static uint64_t system_now_ns(const mr_group *group)
{
    (void)group;
    return mr_clock_now_ns();
}

int mr_group_create(mr_backend requested, mr_group **result)
{
    mr_backend chosen;
    int error = mr_backend_choose(requested, &chosen);
    if (error)
        return error;
    return mr_group_on(chosen, backends[chosen], system_now_ns, result);
}

void mr_group_fix_owners(mr_group *group)
{
    group->owners_are_fixed = true;
}

void mr_group_destroy(mr_group *group)
{
    mr_handle_table_free(&group->handles);
    free(group);
}

void mr_group_number_from(mr_group *group, uint32_t first)
{
    atomic_store(&group->loop_count, first);
}

uint64_t mr_group_now_ns(const mr_group *group)
{
    return group->now_ns(group);
}

mr_backend mr_group_backend(const mr_group *group)
{
    return group->backend_id;
}

int mr_group_adopt(mr_group *group, int descriptor, mr_handle *handle)
{
    return mr_handle_adopt(&group->handles, descriptor, handle);
}

int mr_group_is_open(mr_group *group, mr_handle handle)
{
    return mr_handle_is_open(&group->handles, handle);
}
