/*
 * mailbox.h: how other threads ask the owner of a loop to do something.
 *
 * Many threads post, one takes. A letter is allocated by the poster and freed by the taker. The mailbox wakes nobody
 * and knows nothing of what the letters mean.
 */
#ifndef MILLRACE_MAILBOX_H
#define MILLRACE_MAILBOX_H

#include "millrace.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef enum mr_letter_kind {
    MR_LETTER_START,
    MR_LETTER_CANCEL,
    MR_LETTER_UPDATE,
    MR_LETTER_RELEASE,
    MR_LETTER_DEADLINE, /* a deadline of `handle` is earlier than before */
    MR_LETTER_RECALL,   /* who receives on `handle` is to ask again */
    MR_LETTER_SHUT,     /* `handle` was shut down, as `request` says */
    MR_LETTER_DETACH,   /* end everything on `handle`, then acknowledge to the group */
    MR_LETTER_DETACHED  /* everybody has let go of the descriptor that operation `token` closes */
} mr_letter_kind;

typedef struct mr_letter {
    struct mr_letter *next;
    mr_letter_kind kind;
    mr_token token;
    mr_handle handle;
    uint64_t deadline_ns;
    mr_request request;
} mr_letter;

typedef struct mr_mailbox {
    _Atomic(mr_letter *) newest;
} mr_mailbox;

/* Posts a copy of the letter. [any thread] Does not fail: memory for a letter is the one allocation whose failure
 * would lose an operation, so running out of it ends the process with a message. */
void mr_mailbox_post(mr_mailbox *mailbox, const mr_letter *letter);

/* Takes all letters, oldest first; the caller frees each. */
mr_letter *mr_mailbox_take(mr_mailbox *mailbox);

bool mr_mailbox_is_empty(mr_mailbox *mailbox);

#endif
