/* mailbox.c: the many-to-one queue of mailbox.h. It is a stack with compare-and-swap, which the taker reverses. */
#include "mailbox.h"

#include <stdio.h>
#include <stdlib.h>

void mr_mailbox_post(mr_mailbox *mailbox, const mr_letter *letter)
{
    mr_letter *copy = malloc(sizeof *copy);
    if (!copy) {
        fputs("millrace: out of memory while passing a message between loops\n", stderr);
        abort();
    }
    *copy = *letter;
    copy->next = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&mailbox->newest, &copy->next, copy))
        ;
}

mr_letter *mr_mailbox_take(mr_mailbox *mailbox)
{
    if (!atomic_load_explicit(&mailbox->newest, memory_order_relaxed))
        return NULL;
    mr_letter *letter = atomic_exchange(&mailbox->newest, NULL);
    mr_letter *oldest_first = NULL;
    while (letter) {
        mr_letter *next = letter->next;
        letter->next = oldest_first;
        oldest_first = letter;
        letter = next;
    }
    return oldest_first;
}

bool mr_mailbox_is_empty(mr_mailbox *mailbox)
{
    return atomic_load(&mailbox->newest) == NULL;
}
