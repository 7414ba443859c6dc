/* alarm.c: see alarm.h. */
#include "alarm.h"

#include <errno.h>

static_assert(sizeof(mr_alarm) == 48, "what CONTRACT.md states per timer");

mr_alarm *mr_alarm_take(mr_loop *loop)
{
    mr_alarm *alarm = loop->free_alarms;
    if (alarm) {
        loop->free_alarms = (mr_alarm *)alarm->timer.next;
        alarm->timer.next = NULL;
    } else {
        uint32_t number;
        alarm = mr_pool_extend(&loop->alarms, sizeof *alarm, MR_RECORDS_MAX, &number);
        if (!alarm)
            return NULL;
        alarm->token = mr_token_make(loop->group->epoch, loop->index, number, true);
        alarm->timer.place.owner = MR_TIMER_OF_ALARM;
    }
    alarm->state = MR_SLOT_RESERVED;
    return alarm;
}

int mr_alarm_start(mr_loop *loop, mr_alarm *alarm, const mr_request *request)
{
    if (request->kind != MR_TIMEOUT || request->flags)
        return -EINVAL;
    alarm->user_data = request->user_data;
    alarm->result = 0;
    alarm->state = MR_SLOT_PENDING;
    mr_timer_arm(&loop->wheel, &alarm->timer, request->deadline_ns);
    mr_count(&loop->counters.operations, 1);
    mr_count(&loop->counters.parks, 1);
    return 0;
}

void mr_alarm_end(mr_loop *loop, mr_alarm *alarm, int result)
{
    if (alarm->state != MR_SLOT_PENDING)
        return;
    alarm->result = result;
    alarm->state = MR_SLOT_COMPLETED;
    mr_timer_arm(&loop->wheel, &alarm->timer, 0);
}

void mr_alarm_update(mr_loop *loop, mr_alarm *alarm, uint64_t deadline_ns)
{
    if (alarm->state == MR_SLOT_PENDING)
        mr_timer_arm(&loop->wheel, &alarm->timer, deadline_ns);
}

bool mr_alarm_discard(mr_loop *loop, mr_alarm *alarm)
{
    if (alarm->state != MR_SLOT_PENDING)
        return false;
    mr_timer_disarm(&loop->wheel, &alarm->timer);
    alarm->state = MR_SLOT_RESERVED;
    mr_count(&loop->counters.completions, 1);
    return true;
}

void mr_alarm_release(mr_loop *loop, mr_alarm *alarm)
{
    if (alarm->state != MR_SLOT_DELIVERED && alarm->state != MR_SLOT_RESERVED)
        return;
    alarm->token = mr_token_next(alarm->token);
    alarm->state = MR_SLOT_FREE;
    alarm->timer.next = (mr_timer *)loop->free_alarms;
    loop->free_alarms = alarm;
}

void mr_alarm_deliver(mr_loop *loop, mr_alarm *alarm, mr_completion *completion)
{
    alarm->state = MR_SLOT_DELIVERED;
    *completion = (mr_completion){.token = alarm->token, .user_data = alarm->user_data, .result = alarm->result};
    mr_count(&loop->counters.completions, 1);
}

size_t mr_alarm_list(const mr_loop *loop, mr_pending *list, size_t capacity)
{
    size_t count = 0;
    for (uint32_t i = 0; i < loop->alarms.count; i++) {
        const mr_alarm *alarm = mr_pool_at(&loop->alarms, i, sizeof *alarm);
        if (alarm->state != MR_SLOT_PENDING)
            continue;
        if (count < capacity)
            list[count] = (mr_pending){.token = alarm->token,
                                       .kind = MR_TIMEOUT,
                                       .descriptor = -1,
                                       .deadline_ns = mr_timer_due_ns(&alarm->timer),
                                       .user_data = alarm->user_data};
        count++;
    }
    return count;
}
