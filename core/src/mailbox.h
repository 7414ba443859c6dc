/*
 * mailbox.h: a queue through which other threads send messages to the owner of a loop.
 *
 * Many threads post, one takes. The poster allocates a message and the taker frees it. The mailbox does not wake the
 * loop, and does not know what the messages mean. Must not know: loops.
 */
#ifndef MILLRACE_MAILBOX_H
#define MILLRACE_MAILBOX_H

#include "millrace.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef enum mr_message_kind {
    MR_MESSAGE_START,
    MR_MESSAGE_CANCEL,
    MR_MESSAGE_UPDATE,
    MR_MESSAGE_RELEASE,
    MR_MESSAGE_DEADLINE,  /* a deadline of `handle` is earlier than before */
    MR_MESSAGE_INTERRUPT, /* receives on `handle` must end, so that their callers look again */
    MR_MESSAGE_SHUT,      /* `handle` was shut down; `request.length` is SHUT_RD, ... */
    MR_MESSAGE_DETACH,    /* end all operations on `handle`, then release it */
    MR_MESSAGE_DETACHED   /* all loops and threads have released the descriptor that operation `token` closes */
} mr_message_kind;

typedef struct mr_message {
    struct mr_message *next;
    mr_message_kind kind;
    mr_token token;
    mr_handle handle;
    uint64_t deadline_ns;
    mr_request request;
} mr_message;

typedef struct mr_mailbox {
    _Atomic(mr_message *) newest;
} mr_mailbox;

/* Posts a copy of the message. [any thread] It cannot fail, because a lost message would lose an operation. So 256
 * messages are reserved for when there is no memory. If these are used up too, it prints an error and aborts the
 * process. */
void mr_mailbox_post(mr_mailbox *mailbox, const mr_message *message);

/* Takes all messages, oldest first; the caller gives each to mr_mailbox_free. */
mr_message *mr_mailbox_take(mr_mailbox *mailbox);
void mr_mailbox_free(mr_message *message); /* [any thread] */

bool mr_mailbox_is_empty(mr_mailbox *mailbox);

#endif
