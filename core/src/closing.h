/*
 * closing.h: how to close a descriptor that several loops use.
 *
 * Every loop with operations on the handle ends them and then releases the handle. A thread that holds the handle
 * during a system call (mr_group_hold) releases it after that call. The last one to release it tells the loop of the
 * MR_CLOSE, which then closes the descriptor. So no operation ever reaches a later descriptor with the same number.
 */
#ifndef MILLRACE_CLOSING_H
#define MILLRACE_CLOSING_H

#include "loop.h"

/* Starts an MR_CLOSE. */
void mr_closing_begin(mr_loop *loop, mr_slot *slot);

/* Ends every operation of this loop on a descriptor that is being closed. When the last one has ended, the loop
 * releases the handle. */
void mr_closing_detach(mr_loop *loop, mr_handle handle);

/* An operation on a descriptor that is being closed has ended. If it was this loop's last, the loop releases the
   handle. */
void mr_closing_note_end(mr_loop *loop, mr_descriptor *descriptor);

/* All loops and threads have released the handle: closes the descriptor and completes the MR_CLOSE. */
void mr_closing_complete(mr_loop *loop, mr_token closer);

#endif
