/* group.c: creates, resets and destroys groups, and sends messages to all loops of one. Must not know: system calls. */
#include "backend.h"
#include "lifetime.h"
#include "message.h"
#include "token.h"

#include <errno.h>
#include <stdlib.h>

/* Returns a number that no group of this process has had. */
static uint32_t next_epoch(void)
{
    static atomic_uint epochs;
    return atomic_fetch_add_explicit(&epochs, 1, memory_order_relaxed);
}

int mr_group_create_on(mr_backend id, const mr_backend_operations *backend, mr_group_clock *now_ns, mr_group **result)
{
    mr_group *group = calloc(1, sizeof *group);
    if (!group)
        return -ENOMEM;
    group->backend_id = id;
    group->backend = backend;
    group->now_ns = now_ns;
    group->epoch = next_epoch();
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
    mr_owners owners;
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
    int error = mr_group_create_on(backend, mr_backend_operations_of(backend), system_now_ns, &wanted->group);
    if (error)
        return error;
    wanted->group->owners = wanted->owners;
    error = create_loops(wanted->group, wanted->loops, wanted->loop_count);
    if (error)
        mr_group_destroy(wanted->group);
    return error;
}

static int create_group(mr_backend requested, creation *wanted, mr_group **result)
{
    int error = mr_backend_use_first(requested, wanted->owners, create_on, wanted);
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
    return create_group(requested, &(creation){.loops = loops, .loop_count = count, .owners = MR_OWNERS_ARE_FIXED},
                        result);
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

void mr_group_check_polls(mr_group *group)
{
    group->checks_polls = true;
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

void mr_group_reset_after_fork(mr_group *group)
{
    unsigned count = atomic_load(&group->loop_count);
    for (unsigned i = 0; i < count; i++) {
        mr_loop *loop = atomic_load(&group->loops[i]);
        if (loop)
            mr_loop_abandon(loop);
        atomic_store(&group->loops[i], NULL);
    }
    atomic_store(&group->loop_count, 0);
    group->epoch = next_epoch();
    mr_handle_reset_after_fork(&group->handles);
}

unsigned mr_group_other_loops(mr_group *group, uint64_t joined, const mr_loop *except, mr_loop *others[MR_LOOPS_MAX])
{
    unsigned count = 0;
    unsigned loop_count = atomic_load(&group->loop_count);
    for (unsigned i = 0; joined && i < loop_count; i++) {
        mr_loop *other = atomic_load(&group->loops[i]);
        if (other && other != except && (joined >> (i % 64) & 1))
            others[count++] = other;
    }
    return count;
}

/* Delivers a message to a set of loops. The caller may own one of them. */
static void send_message(mr_group *group, uint64_t joined, mr_loop *owned, const mr_message *message)
{
    mr_loop *others[MR_LOOPS_MAX];
    unsigned count = mr_group_other_loops(group, joined, owned, others);
    for (unsigned i = 0; i < count; i++)
        mr_loop_post(others[i], message);
    if (owned) {
        mr_loop_act_on(owned, message);
        mr_loop_flush_for_sleeper(owned);
    }
}

int mr_group_set_deadline(mr_group *group, mr_loop *owned, mr_handle handle, mr_direction direction,
                          uint64_t deadline_ns)
{
    uint64_t joined;
    int error = mr_handle_set_deadline(&group->handles, handle, direction, deadline_ns, &joined);
    if (!error && joined)
        send_message(group, joined, owned, &(mr_message){.kind = MR_MESSAGE_DEADLINE, .handle = handle});
    return error;
}

int mr_group_interrupt(mr_group *group, mr_loop *owned, mr_handle handle)
{
    uint64_t joined;
    int error = mr_handle_loops(&group->handles, handle, &joined);
    if (!error)
        send_message(group, joined, owned, &(mr_message){.kind = MR_MESSAGE_INTERRUPT, .handle = handle});
    return error;
}
