/*
 * thread.c: threads that a fiber starts or joins, and _Fork.
 *
 * In libc a new thread inherits the signal mask of the thread that creates it. On a fiber that is the carrier's mask,
 * which blocks nearly everything, so signals meant for the new thread would not reach it. Therefore a new thread
 * begins with the mask of the fiber that creates it.
 */
#include "../carrier.h"
#include "../mask.h"
#include "../offload.h"
#include "../runtime.h"
#include "libc.h"

#include <errno.h>

MF_ALWAYS_LINKED(thread);

/* The start of a new thread: its signal mask, and one of the two functions. */
typedef struct beginning {
    void *(*run)(void *);
    int (*run_as_c11)(void *);
    void *argument;
    uint64_t mask;
} beginning;

/* Allocates the record; NULL without memory. */
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

/* In the child of fork a pthread_atfork handler forgets the carriers. _Fork runs no such handlers, so this does. */
pid_t _Fork(void)
{
    pid_t child = LIBC(_Fork)();
    if (child == 0)
        mf_runtime_forget_after_fork();
    return child;
}

/* ------------------------------------------------------------------------------------------------------ joining --- */

typedef struct join_call {
    pthread_t thread;
    void **value;
    int result;
} join_call;

static void run_join(void *argument)
{
    join_call *call = argument;
    call->result = LIBC(pthread_join)(call->thread, call->value);
}

/* Lets a helper thread wait. That could not notice that a thread joins itself, so this function checks it. */
int pthread_join(pthread_t thread, void **value)
{
    if (!mf_current)
        return LIBC(pthread_join)(thread, value);
    if (pthread_equal(thread, pthread_self()))
        return EDEADLK;
    join_call call = {.thread = thread, .value = value};
    mf_offload_to_new_thread(run_join, &call);
    return call.result;
}
