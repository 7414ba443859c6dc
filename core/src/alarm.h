/*
 * alarm.h: operations of kind TIMEOUT. They wait for nothing but a moment, so an alarm keeps what that takes (48 bytes) in
 * place of a slot. To the outside it is an operation like others, with a token like others.
 *
 * It knows the loop's wheel and counters, and no descriptors. Wakes nobody: that is loop.c's.
 */
#ifndef MILLRACE_ALARM_H
#define MILLRACE_ALARM_H

#include "loop.h"
#include "token.h"

typedef struct mr_alarm {
    mr_timer timer; /* first: a timer that fires is cast back to its alarm. On the free list, linked by `next`. */
    mr_token token;
    uint64_t user_data;
    int32_t result; /* of a COMPLETED one */
    uint8_t state;  /* mr_slot_state; COMPLETED ones are in the wheel too, and due at once */
} mr_alarm;

/* A reserved alarm, or NULL without memory. */
mr_alarm *mr_alarm_take(mr_loop *loop);

/* Starts a reserved alarm. -EINVAL, without starting it, if the request is not a TIMEOUT or has unknown flags. */
int mr_alarm_start(mr_loop *loop, mr_alarm *alarm, const mr_request *request);

/* The alarm of a token that mr_token_is_alarm, or NULL if it is stale. */
static inline mr_alarm *mr_alarm_find(mr_loop *loop, mr_token token)
{
    mr_alarm *alarm = mr_pool_at(&loop->alarms, mr_token_number(token), sizeof *alarm);
    return alarm && alarm->token == token && alarm->state != MR_SLOT_FREE ? alarm : NULL;
}

/* A pending one ends at the next poll with this result. */
void mr_alarm_end(mr_loop *loop, mr_alarm *alarm, int result);

void mr_alarm_update(mr_loop *loop, mr_alarm *alarm, uint64_t deadline_ns);

/* A pending one is reserved again. False if it was not pending. */
bool mr_alarm_discard(mr_loop *loop, mr_alarm *alarm);

/* Frees a reserved or delivered one. */
void mr_alarm_release(mr_loop *loop, mr_alarm *alarm);

/* Its timer has fired: the completion. */
void mr_alarm_deliver(mr_loop *loop, mr_alarm *alarm, mr_completion *completion);

/* See mr_loop_list. Their deadlines are those of the wheel's ticks. */
size_t mr_alarm_list(const mr_loop *loop, mr_pending *list, size_t capacity);

#endif
