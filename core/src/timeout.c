/* timeout.c: see timeout.h. Must not know: system calls. */
#include "timeout.h"

#include <errno.h>

static_assert(sizeof(mr_timeout) == 48, "what CONTRACT.md states per timer");

mr_timeout *mr_timeout_reserve(mr_loop *loop)
{
    mr_timeout *timeout = loop->free_timeouts;
    if (timeout) {
        loop->free_timeouts = (mr_timeout *)timeout->timer.next;
        timeout->timer.next = NULL;
    } else {
        uint32_t number;
        timeout = mr_pool_extend(&loop->timeouts, sizeof *timeout, MR_RECORDS_MAX, &number);
        if (!timeout)
            return NULL;
        timeout->token = mr_token_make(loop->group->epoch, loop->index, number, true);
        timeout->timer.position.owner = MR_TIMER_OF_TIMEOUT;
    }
    timeout->state = MR_SLOT_RESERVED;
    return timeout;
}

int mr_timeout_start(mr_loop *loop, mr_timeout *timeout, const mr_request *request)
{
    if (request->kind != MR_TIMEOUT || request->flags)
        return -EINVAL;
    timeout->user_data = request->user_data;
    timeout->result = 0;
    timeout->state = MR_SLOT_PENDING;
    mr_timer_arm(&loop->wheel, &timeout->timer, request->deadline_ns);
    mr_count(&loop->counters.operations, 1);
    mr_count(&loop->counters.parks, 1);
    return 0;
}

void mr_timeout_end(mr_loop *loop, mr_timeout *timeout, int result)
{
    if (timeout->state != MR_SLOT_PENDING)
        return;
    timeout->result = result;
    timeout->state = MR_SLOT_COMPLETED;
    mr_timer_arm(&loop->wheel, &timeout->timer, 0);
}

void mr_timeout_update(mr_loop *loop, mr_timeout *timeout, uint64_t deadline_ns)
{
    if (timeout->state == MR_SLOT_PENDING)
        mr_timer_arm(&loop->wheel, &timeout->timer, deadline_ns);
}

bool mr_timeout_discard(mr_loop *loop, mr_timeout *timeout)
{
    if (timeout->state != MR_SLOT_PENDING)
        return false;
    mr_timer_disarm(&loop->wheel, &timeout->timer);
    timeout->state = MR_SLOT_RESERVED;
    mr_count(&loop->counters.completions, 1);
    return true;
}

void mr_timeout_release(mr_loop *loop, mr_timeout *timeout)
{
    if (timeout->state != MR_SLOT_DELIVERED && timeout->state != MR_SLOT_RESERVED)
        return;
    timeout->token = mr_token_next(timeout->token);
    timeout->state = MR_SLOT_FREE;
    timeout->timer.next = (mr_timer *)loop->free_timeouts;
    loop->free_timeouts = timeout;
}

void mr_timeout_deliver(mr_loop *loop, mr_timeout *timeout, mr_completion *completion)
{
    timeout->state = MR_SLOT_DELIVERED;
    *completion = (mr_completion){.token = timeout->token, .user_data = timeout->user_data, .result = timeout->result};
    mr_count(&loop->counters.completions, 1);
}

size_t mr_timeout_list(const mr_loop *loop, mr_pending *list, size_t capacity)
{
    size_t count = 0;
    for (uint32_t i = 0; i < loop->timeouts.count; i++) {
        const mr_timeout *timeout = mr_pool_at(&loop->timeouts, i, sizeof *timeout);
        if (timeout->state != MR_SLOT_PENDING)
            continue;
        if (count < capacity)
            list[count] = (mr_pending){.token = timeout->token,
                                       .kind = MR_TIMEOUT,
                                       .descriptor = -1,
                                       .deadline_ns = mr_timer_due_ns(&timeout->timer),
                                       .user_data = timeout->user_data};
        count++;
    }
    return count;
}
