/*
 * closing.h: how a descriptor is closed that several loops use.
 *
 * Every loop that has joined the handle ends its operations and lets go. A thread that holds the handle for a call of its
 * own lets go after that call. The last one tells the loop of the MR_CLOSE, which gives the number back to the system. So
 * no operation ever reaches another descriptor that has the same number.
 */
#ifndef MILLRACE_CLOSING_H
#define MILLRACE_CLOSING_H

#include "loop.h"

/* Starts an MR_CLOSE. */
void mr_closing_begin(mr_loop *loop, mr_slot *slot);

/* Ends every operation of this loop on a descriptor that is being closed; the last one to end lets go of it. */
void mr_closing_detach(mr_loop *loop, mr_handle handle);

/* An operation on a descriptor that is being closed has ended: that may have been the last. */
void mr_closing_note_end(mr_loop *loop, mr_descriptor *descriptor);

/* Everybody has let go: the descriptor may be closed, and the operation that wanted it ends. */
void mr_closing_complete(mr_loop *loop, mr_token closer);

#endif
