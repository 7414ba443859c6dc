/* mailbox.c: the many-to-one queue of mailbox.h. It is a stack with compare-and-swap, which the taker reverses. */
#include "mailbox.h"

#include <stdio.h>
#include <stdlib.h>

void mr_mailbox_post(mr_mailbox *mailbox, const mr_message *message)
{
    mr_message *copy = malloc(sizeof *copy);
    if (!copy) {
        fputs("millrace: out of memory while passing a message between loops\n", stderr);
        abort();
    }
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
