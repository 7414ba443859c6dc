/* lifetime.c: creates and destroys loops, abandons them after a fork, and reports their operations and counters. Must
 * not know: system calls. */
#include "lifetime.h"
#include "message.h"
#include "timeout.h"
#include "backend.h"
#include "token.h"

#include <errno.h>
#include <stdlib.h>

static bool has_not_ended(mr_slot_state state)
{
    return state == MR_SLOT_PENDING || state == MR_SLOT_BACKOFF;
}

static void free_memory(mr_loop *loop)
{
    for (mr_message *message = mr_mailbox_take(&loop->mailbox), *next; message; message = next) {
        next = message->next;
        mr_mailbox_free(message);
    }
    for (uint32_t i = 0; i < loop->slots.count; i++) {
        mr_slot *slot = mr_pool_at(&loop->slots, i, sizeof *slot);
        free(slot->backend_memory);
        mr_buffer_destroy(slot->borrowed);
        if (has_not_ended(slot->state) && slot->request.kind == MR_SEND_THEN_RECEIVE)
            mr_buffer_destroy(slot->request.buffer);
    }
    mr_pool_free(&loop->slots);
    mr_pool_free(&loop->timeouts);
    for (uint32_t i = 0; i < loop->descriptor_chunk_count; i++)
        free(loop->descriptor_chunks[i]);
    free(loop->descriptor_chunks);
    mr_buffers_free_all(&loop->buffers);
    free(loop);
}

/* Claims the next index of the group. */
static int enter_group(mr_loop *loop)
{
    unsigned index = atomic_load(&loop->group->loop_count);
    do {
        if (index == MR_LOOPS_MAX)
            return -E2BIG;
    } while (!atomic_compare_exchange_weak(&loop->group->loop_count, &index, index + 1));
    loop->index = index;
    return 0;
}

int mr_loop_create(mr_group *group, mr_loop **result)
{
    mr_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return -ENOMEM;
    loop->group = group;
    loop->backend = group->backend;
    mr_timer_wheel_init(&loop->wheel, mr_loop_now_ns(loop));
    int error = loop->backend->create(loop);
    if (!error && (error = enter_group(loop)))
        loop->backend->destroy(loop);
    if (error) {
        free_memory(loop);
        return error;
    }
    atomic_store(&group->loops[loop->index], loop);
    *result = loop;
    return 0;
}

void mr_loop_destroy(mr_loop *loop)
{
    atomic_store(&loop->group->loops[loop->index], NULL);
    mr_loop_take_messages(loop);
    loop->backend->destroy(loop);
    free_memory(loop);
}

size_t mr_loop_list(const mr_loop *loop, mr_pending *list, size_t capacity)
{
    size_t count = 0;
    for (uint32_t i = 0; i < loop->slots.count; i++) {
        const mr_slot *slot = mr_pool_at(&loop->slots, i, sizeof *slot);
        if (!has_not_ended(slot->state))
            continue;
        if (count < capacity)
            list[count] = (mr_pending){.token = slot->token,
                                       .kind = slot->request.kind,
                                       .descriptor = mr_slot_number(slot),
                                       .deadline_ns = slot->request.deadline_ns,
                                       .user_data = slot->request.user_data};
        count++;
    }
    return count +
           mr_timeout_list(loop, count < capacity ? list + count : NULL, count < capacity ? capacity - count : 0);
}

int64_t mr_loop_buffers_in_use(const mr_loop *loop)
{
    return loop->buffers.in_use_count;
}

uint32_t mr_loop_index(const mr_loop *loop)
{
    return loop->index;
}

void mr_loop_counters(const mr_loop *loop, mr_counters *counters)
{
    const mr_live_counters *live = &loop->counters;
#define MR_COPY(name) counters->name = atomic_load_explicit(&live->name, memory_order_relaxed)
    MR_COPY(operations);
    MR_COPY(completions);
    MR_COPY(parks);
    MR_COPY(system_calls);
    MR_COPY(waits);
    MR_COPY(wake_ups);
    MR_COPY(resubmissions);
#undef MR_COPY
    /* The counters are read one after the other. An operation in between must not make the difference negative. */
    bool is_consistent = counters->operations >= counters->completions;
    counters->in_flight = is_consistent ? counters->operations - counters->completions : 0;
}

void mr_loop_abandon(mr_loop *loop)
{
    loop->backend->abandon(loop);
    free_memory(loop);
}
