/*
 * send_then_receive.h: MR_SEND_THEN_RECEIVE. Its first half sends, without waiting; then the operation becomes a receive.
 *
 * Must not know: system calls.
 */
#ifndef MILLRACE_SEND_THEN_RECEIVE_H
#define MILLRACE_SEND_THEN_RECEIVE_H

#include "loop.h"

/* What it sends. */
static inline void *mr_send_then_receive_bytes(const mr_request *request)
{
    return ((mr_buffer *)request->buffer)->bytes + request->offset;
}

/* Tries the first half at once. False if the operation has ended by that. */
bool mr_send_then_receive_begin(mr_loop *loop, mr_slot *slot);

/* One attempt at the first half. Never -EAGAIN: it waits for nothing. */
int64_t mr_send_then_receive_attempt(mr_loop *loop, mr_slot *slot);

/* How the first half went: see mr_loop_settle. */
bool mr_send_then_receive_settle(mr_loop *loop, mr_slot *slot, int64_t result);

/* It ends in its first half: if that has failed, the buffer goes back to the loop; if it was not possible, the buffer
 * is the caller's again. */
void mr_send_then_receive_end(mr_loop *loop, mr_slot *slot, int64_t result);

#endif
