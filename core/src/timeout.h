/*
 * timeout.h: operations of kind TIMEOUT. They only wait for a moment, so each has a record of 48 bytes instead of a
 * slot. Callers see an operation and a token as others.
 *
 * It uses the loop's wheel and counters. It does not wake a sleeping loop: loop.c does. Must not know: backends.
 */
#ifndef MILLRACE_TIMEOUT_H
#define MILLRACE_TIMEOUT_H

#include "loop.h"
#include "token.h"

typedef struct mr_timeout {
    mr_timer timer; /* first: a timer that fires is cast back to its timeout. On the free list, linked by `next`. */
    mr_token token;
    uint64_t user_data;
    int32_t result; /* of a COMPLETED timeout */
    uint8_t state;  /* mr_slot_state; COMPLETED ones are in the wheel too, and due at once */
} mr_timeout;

/* Reserves a timeout; NULL without memory. */
mr_timeout *mr_timeout_reserve(mr_loop *loop);

/* Starts a reserved timeout. -EINVAL, without starting it, if the request is not a TIMEOUT or has unknown flags. */
int mr_timeout_start(mr_loop *loop, mr_timeout *timeout, const mr_request *request);

/* The timeout of a token for which mr_token_is_timeout is true, or NULL if it is stale. */
static inline mr_timeout *mr_timeout_find(mr_loop *loop, mr_token token)
{
    mr_timeout *timeout = mr_pool_at(&loop->timeouts, mr_token_number(token), sizeof *timeout);
    return timeout && timeout->token == token && timeout->state != MR_SLOT_FREE ? timeout : NULL;
}

/* Ends a pending timeout with this result, at the next poll. */
void mr_timeout_end(mr_loop *loop, mr_timeout *timeout, int result);

void mr_timeout_update(mr_loop *loop, mr_timeout *timeout, uint64_t deadline_ns);

/* Makes a pending timeout reserved again. Returns false if it was not pending. */
bool mr_timeout_discard(mr_loop *loop, mr_timeout *timeout);

/* Frees a reserved or delivered timeout. */
void mr_timeout_release(mr_loop *loop, mr_timeout *timeout);

/* Fills in the completion of a timeout whose timer has fired. */
void mr_timeout_deliver(mr_loop *loop, mr_timeout *timeout, mr_completion *completion);

/* Lists pending timeouts: see mr_loop_list. Their deadlines are rounded to the wheel's ticks. */
size_t mr_timeout_list(const mr_loop *loop, mr_pending *list, size_t capacity);

#endif
