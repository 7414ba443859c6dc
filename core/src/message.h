/* message.h: messages to a loop's owner, from other loops and threads. Must not know: system calls. */
#ifndef MILLRACE_MESSAGE_H
#define MILLRACE_MESSAGE_H

#include "loop.h"

/* Posts a message to a loop, and wakes it. [any thread] */
void mr_loop_post(mr_loop *loop, const mr_message *message);

/* Carries out the messages in the mailbox. */
void mr_loop_take_messages(mr_loop *loop);

/* Carries out one message. */
void mr_loop_act_on(mr_loop *loop, const mr_message *message);

#endif
