/*
 * create.c: threads and processes that a fiber starts.
 *
 * libc has a new thread begin with what its creator's thread blocks, which on a fiber is all that carriers block: nothing
 * that is meant for the new thread would reach it. It is to begin with the fiber's mask.
 */
#include "../carrier.h"
#include "../mask.h"
#include "../runtime.h"
#include "libc.h"

#include <errno.h>

/* What a new thread does first, and what then. */
typedef struct beginning {
    void *(*run)(void *);
    int (*run_as_c11)(void *); /* instead */
    void *argument;
    uint64_t mask;
} beginning;

/* NULL without memory. */
static beginning *prepare(beginning first)
{
    beginning *b = malloc(sizeof *b);
    if (b) {
        *b = first;
        b->mask = mf_mask_of_fiber();
    }
    return b;
}

static beginning begin(void *argument)
{
    beginning b = *(beginning *)argument;
    free(argument);
    mf_mask_set(b.mask);
    return b;
}

static void *begin_thread(void *argument)
{
    beginning b = begin(argument);
    return b.run(b.argument);
}

static int begin_c11_thread(void *argument)
{
    beginning b = begin(argument);
    return b.run_as_c11(b.argument);
}

static bool names_a_mask(const pthread_attr_t *attributes)
{
    sigset_t mask;
    return pthread_attr_getsigmask_np(attributes, &mask) == 0;
}

static bool default_names_a_mask(void)
{
    pthread_attr_t attributes;
    if (pthread_getattr_default_np(&attributes) != 0)
        return false;
    bool names = names_a_mask(&attributes);
    pthread_attr_destroy(&attributes);
    return names;
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*run)(void *),
                   void *restrict argument)
{
    if (!mf_current || (attributes ? names_a_mask(attributes) : default_names_a_mask()))
        return LIBC(pthread_create)(thread, attributes, run, argument);
    beginning *b = prepare((beginning){.run = run, .argument = argument});
    int error = b ? LIBC(pthread_create)(thread, attributes, begin_thread, b) : EAGAIN;
    if (error)
        free(b);
    return error;
}

int thrd_create(thrd_t *thread, thrd_start_t run, void *argument)
{
    if (!mf_current || default_names_a_mask())
        return LIBC(thrd_create)(thread, run, argument);
    beginning *b = prepare((beginning){.run_as_c11 = run, .argument = argument});
    int result = b ? LIBC(thrd_create)(thread, begin_c11_thread, b) : thrd_nomem;
    if (result != thrd_success)
        free(b);
    return result;
}

/* It runs none of what pthread_atfork was told, by which the child of fork learns that it has no carriers. */
pid_t _Fork(void)
{
    pid_t child = LIBC(_Fork)();
    if (child == 0)
        mf_runtime_forget_after_fork();
    return child;
}
