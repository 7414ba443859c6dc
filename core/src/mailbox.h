/*
 * mailbox.h: how other threads ask the owner of a loop to do something.
 *
 * Many threads post, one takes. A message is allocated by the poster and freed by the taker. The mailbox wakes nobody
 * and does not know what the messages mean. Must not know: loops.
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
    MR_MESSAGE_SHUT,      /* `handle` was shut down, as `request` says */
    MR_MESSAGE_DETACH,    /* end everything on `handle`, then acknowledge to the group */
    MR_MESSAGE_DETACHED   /* no loop uses the descriptor any more that operation `token` closes */
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

/* Posts a copy of the message. [any thread] Does not fail: memory for a message is the one allocation whose failure
 * would lose an operation. So 256 messages are kept for it. When these are used up too, it ends the process with a
 * message. */
void mr_mailbox_post(mr_mailbox *mailbox, const mr_message *message);

/* Takes all messages, oldest first; the caller gives each to mr_mailbox_free. */
mr_message *mr_mailbox_take(mr_mailbox *mailbox);
void mr_mailbox_free(mr_message *message); /* [any thread] */

bool mr_mailbox_is_empty(mr_mailbox *mailbox);

#endif
