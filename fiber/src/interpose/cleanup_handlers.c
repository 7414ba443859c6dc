/* cleanup_handlers.c: reaches libc's list of cleanup handlers, which has no name. */
#include "cleanup_handlers.h"

#include <stddef.h>

/* pthread.h declares these for old compilers only. */
void _pthread_cleanup_push(mf_cleanup *, void (*)(void *), void *);
void _pthread_cleanup_pop(mf_cleanup *, int);

static void clean_nothing(void *argument)
{
    (void)argument;
}

mf_cleanup *mf_cleanups_exchange(mf_cleanup *first)
{
    mf_cleanup own;
    _pthread_cleanup_push(&own, clean_nothing, NULL);
    mf_cleanup *before = own.__prev;
    own.__prev = first;
    _pthread_cleanup_pop(&own, 0);
    return before;
}
