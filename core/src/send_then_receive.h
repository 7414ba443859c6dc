/*
 * send_then_receive.h: MR_SEND_THEN_RECEIVE. Its first half sends, without waiting; then the operation becomes a
 * receive.
 *
 * Must not know: system calls.
 */
#ifndef MILLRACE_SEND_THEN_RECEIVE_H
#define MILLRACE_SEND_THEN_RECEIVE_H

#include "loop.h"

/* The bytes to send. */
static inline void *mr_send_then_receive_bytes(const mr_request *request)
{
    return ((mr_buffer *)request->buffer)->bytes + request->offset;
}

/* Tries the send. Returns false if the operation has ended, true if it is now a receive. */
bool mr_send_then_receive_begin(mr_loop *loop, mr_slot *slot);

/* Attempts the send once. Never returns -EAGAIN: the send does not wait. */
int64_t mr_send_then_receive_attempt(mr_loop *loop, mr_slot *slot);

/* Settles the result of the send: see mr_loop_settle. */
bool mr_send_then_receive_settle(mr_loop *loop, mr_slot *slot, int64_t result);

/* Ends the operation before the receive. If the send has failed, the loop frees the buffer; if it was not possible at
 * once, the buffer belongs to the caller again. */
void mr_send_then_receive_end(mr_loop *loop, mr_slot *slot, int64_t result);

#endif
