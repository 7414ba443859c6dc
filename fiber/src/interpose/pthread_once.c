/*
 * pthread_once.c: pthread_once, whose initializer may park. Until it has returned, other fibers that call pthread_once
 * park as well: libc would block the carrier, on which the initializer may have to continue.
 */
#include "acquire.h"
#include "call_once.h"
#include "cleanup_handlers.h"
#include "libc.h"

MF_ALWAYS_LINKED(pthread_once);

#ifdef __SANITIZE_THREAD__ /* TSan has its own pthread_once, which ignores fork (tsan_interceptors_posix.cpp) */
#define ONCE_IN_PROGRESS (1 << 16)
#define ONCE_DONE        1

static bool is_begun_here(int state)
{
    return state & ONCE_IN_PROGRESS;
}
#else /* the states of glibc (pthreadP.h) */
#define ONCE_IN_PROGRESS 1
#define ONCE_DONE        2

static _Thread_local struct {
    pthread_once_t control;
    int state;
} example;

static void note_state(void)
{
    example.state = example.control;
}

/* The other bits of the state tell in which process the initializer began. A child of fork runs an initializer again
 * that its parent had not finished. */
static bool is_begun_here(int state)
{
    if (!(state & ONCE_IN_PROGRESS))
        return false;
    example.control = PTHREAD_ONCE_INIT;
    LIBC(pthread_once)(&example.control, note_state);
    return state == example.state;
}
#endif

static int try_to_begin_once(void *control)
{
    int state = __atomic_load_n((int *)control, __ATOMIC_ACQUIRE);
    return !(state & ONCE_DONE) && is_begun_here(state) ? EBUSY : 0;
}

/* Parks while another fiber, or an OS thread, runs the initializer. If that initializer throws an exception, the next
 * waiter runs it. */
static void wait_for_initializer(pthread_once_t *control)
{
    int before = errno;
    mf_callable own = mf_callable_get();
    mf_acquire(control, try_to_begin_once, MR_NO_DEADLINE, MF_UNINTERRUPTIBLE);
    mf_callable_put(own);
    errno = before;
}

static _Thread_local void (*next_initializer)(void);

/* libc registers a cleanup handler around the initializer, in case it throws. The fiber must not park with that record
 * in its thread's list: see cleanup_handlers.h. */
static void initialize_leaving_cleanups(void)
{
    void (*initialize)(void) = next_initializer;
    mf_cleanup *inner = mf_cleanups_exchange(NULL);
    mf_cleanups_exchange(inner ? inner->__prev : NULL);
    initialize();
    mf_cleanups_exchange(inner);
}

/* No other fiber of this carrier runs between the test and the call. */
static int once_on_fiber(pthread_once_t *control, void (*initialize)(void))
{
    if (try_to_begin_once(control) == EBUSY)
        wait_for_initializer(control);
    next_initializer = initialize;
    return LIBC(pthread_once)(control, initialize_leaving_cleanups);
}

int pthread_once(pthread_once_t *control, void (*initialize)(void))
{
    if (__atomic_load_n((int *)control, __ATOMIC_ACQUIRE) & ONCE_DONE)
        return 0;
    int error = mf_current ? once_on_fiber(control, initialize) : LIBC(pthread_once)(control, initialize);
    mf_wake_all(control);
    return error;
}

ALIAS(__pthread_once, pthread_once);
