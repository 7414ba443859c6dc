/* message.h: what loops and other threads ask of a loop's owner, through its mailbox. Must not know: system calls. */
#ifndef MILLRACE_MESSAGE_H
#define MILLRACE_MESSAGE_H

#include "loop.h"

/* Puts a message into a loop's mailbox, and wakes the loop. [any thread] */
void mr_loop_post(mr_loop *loop, const mr_message *message);

/* Does what the messages in the mailbox ask for. */
void mr_loop_take_messages(mr_loop *loop);

/* Does what one message asks for. */
void mr_loop_act_on(mr_loop *loop, const mr_message *message);

#endif
