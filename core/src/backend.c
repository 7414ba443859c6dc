/* backend.c: which backends there are, which of them works here, which one is used; and the group that uses it. */
#include "backend.h"

#include "token.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const backend_names[MR_BACKEND_COUNT] = {
    [MR_BACKEND_AUTO] = "auto",     [MR_BACKEND_IO_URING] = "io_uring", [MR_BACKEND_EPOLL] = "epoll",
    [MR_BACKEND_KQUEUE] = "kqueue", [MR_BACKEND_IOCP] = "iocp",         [MR_BACKEND_SIM] = "sim",
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

/* Where nothing else was asked for, MILLRACE_BACKEND may ask for something. */
static int ask_environment(mr_backend *requested)
{
    const char *from_environment = getenv("MILLRACE_BACKEND");
    if (*requested != MR_BACKEND_AUTO || !from_environment || !*from_environment)
        return 0;
    return mr_backend_parse(from_environment, requested);
}

/* What to do with a backend that works according to its probe: 0, or why it does not do after all. */
typedef int use_backend(mr_backend backend, void *context);

static int probe_and_use(mr_backend backend, use_backend *use, void *context)
{
    int error = mr_backend_probe(backend, NULL, 0);
    return error ? error : use(backend, context);
}

/* With the one that was asked for, or with the first for which it succeeds. */
static int use_first(mr_backend requested, use_backend *use, void *context)
{
    int error = ask_environment(&requested);
    if (error)
        return error;
    if (requested != MR_BACKEND_AUTO)
        return probe_and_use(requested, use, context);
    error = -ENOSYS;
    for (size_t i = 0; error && i < sizeof candidates / sizeof *candidates; i++)
        if (backends[candidates[i]])
            error = probe_and_use(candidates[i], use, context);
    return error;
}

static int note_choice(mr_backend backend, void *context)
{
    *(mr_backend *)context = backend;
    return 0;
}

int mr_backend_choose(mr_backend requested, mr_backend *chosen)
{
    return use_first(requested, note_choice, chosen);
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

typedef struct creation {
    mr_group *group;
    mr_loop **loops;
    unsigned loop_count;
    bool owners_are_fixed;
} creation;

static int create_loops(mr_group *group, mr_loop **loops, unsigned count)
{
    for (unsigned made = 0; made < count; made++) {
        int error = mr_loop_create(group, &loops[made]);
        if (error) {
            while (made)
                mr_loop_destroy(loops[--made]);
            return error;
        }
    }
    return 0;
}

static int create_on(mr_backend backend, void *context)
{
    creation *wanted = context;
    int error = mr_group_on(backend, backends[backend], system_now_ns, &wanted->group);
    if (error)
        return error;
    wanted->group->owners_are_fixed = wanted->owners_are_fixed;
    error = create_loops(wanted->group, wanted->loops, wanted->loop_count);
    if (error)
        mr_group_destroy(wanted->group);
    return error;
}

static int create_group(mr_backend requested, creation *wanted, mr_group **result)
{
    int error = use_first(requested, create_on, wanted);
    if (!error)
        *result = wanted->group;
    return error;
}

int mr_group_create_with_loops(mr_backend requested, unsigned count, mr_loop **loops, mr_group **result)
{
    return create_group(requested, &(creation){.loops = loops, .loop_count = count}, result);
}

int mr_group_create_with_owned_loops(mr_backend requested, unsigned count, mr_loop **loops, mr_group **result)
{
    return create_group(requested, &(creation){.loops = loops, .loop_count = count, .owners_are_fixed = true}, result);
}

int mr_group_create(mr_backend requested, mr_group **result)
{
    return mr_group_create_with_loops(requested, 0, NULL, result);
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
