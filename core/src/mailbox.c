/* mailbox.c: the many-to-one queue of mailbox.h. It is a stack with compare-and-swap, which the taker reverses. */
#include "mailbox.h"

#include <stdio.h>
#include <stdlib.h>

/* Messages that are kept for when there is no memory, for all mailboxes together. */
enum { RESERVED = 256 };

static mr_message reserve[RESERVED];
static atomic_bool is_taken[RESERVED];

static mr_message *take_reserved(void)
{
    for (int i = 0; i < RESERVED; i++)
        if (!atomic_exchange(&is_taken[i], true))
            return &reserve[i];
    fputs("millrace: out of memory while passing a message between loops\n", stderr);
    abort();
}

void mr_mailbox_free(mr_message *message)
{
    if (message >= reserve && message < reserve + RESERVED)
        atomic_store(&is_taken[message - reserve], false);
    else
        free(message);
}

void mr_mailbox_post(mr_mailbox *mailbox, const mr_message *message)
{
    mr_message *copy = malloc(sizeof *copy);
    if (!copy)
        copy = take_reserved();
    *copy = *message;
    copy->next = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&mailbox->newest, &copy->next, copy))
        ;
}

mr_message *mr_mailbox_take(mr_mailbox *mailbox)
{
    if (!atomic_load_explicit(&mailbox->newest, memory_order_relaxed))
        return NULL;
    mr_message *message = atomic_exchange(&mailbox->newest, NULL);
    mr_message *oldest_first = NULL;
    while (message) {
        mr_message *next = message->next;
        message->next = oldest_first;
        oldest_first = message;
        message = next;
    }
    return oldest_first;
}

bool mr_mailbox_is_empty(mr_mailbox *mailbox)
{
    return atomic_load(&mailbox->newest) == NULL;
}
