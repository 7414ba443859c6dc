/* c11.c: the calls of C11's <threads.h>. As in glibc, they are pthread's functions under other names. */
#include "../offload.h"
#include "../runtime.h"
#include "blocking.h"
#include "libc.h"

MF_ALWAYS_LINKED(c11);

static int to_thrd(int error)
{
    switch (error) {
    case 0:
        return thrd_success;
    case EBUSY:
        return thrd_busy;
    case ETIMEDOUT:
        return thrd_timedout;
    case ENOMEM:
        return thrd_nomem;
    default:
        return thrd_error;
    }
}

static pthread_mutex_t *mutex_of(mtx_t *mutex)
{
    return (pthread_mutex_t *)mutex;
}

static pthread_cond_t *condition_of(cnd_t *condition)
{
    return (pthread_cond_t *)condition;
}

int mtx_lock(mtx_t *mutex)
{
    return to_thrd(pthread_mutex_lock(mutex_of(mutex)));
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict until)
{
    return to_thrd(pthread_mutex_timedlock(mutex_of(mutex), until));
}

int mtx_trylock(mtx_t *mutex)
{
    return to_thrd(pthread_mutex_trylock(mutex_of(mutex)));
}

int mtx_unlock(mtx_t *mutex)
{
    return to_thrd(pthread_mutex_unlock(mutex_of(mutex)));
}

int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
    return to_thrd(pthread_cond_wait(condition_of(condition), mutex_of(mutex)));
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until)
{
    return to_thrd(pthread_cond_timedwait(condition_of(condition), mutex_of(mutex), until));
}

int cnd_signal(cnd_t *condition)
{
    return to_thrd(pthread_cond_signal(condition_of(condition)));
}

int cnd_broadcast(cnd_t *condition)
{
    return to_thrd(pthread_cond_broadcast(condition_of(condition)));
}

void call_once(once_flag *flag, void (*initialize)(void))
{
    pthread_once(&flag->__data, initialize);
}

typedef struct thrd_join_call {
    thrd_t thread;
    int *result;
    int returned;
} thrd_join_call;

static void run_thrd_join(void *argument)
{
    thrd_join_call *call = argument;
    call->returned = LIBC(thrd_join)(call->thread, call->result);
}

/* Does not call pthread_join, because AddressSanitizer's knows only threads that pthread_create has made. */
int thrd_join(thrd_t thread, int *result)
{
    if (!mf_current)
        return LIBC(thrd_join)(thread, result);
    if (thrd_equal(thread, thrd_current()))
        return thrd_error;
    thrd_join_call call = {.thread = thread, .result = result};
    mf_offload_to_new_thread(run_thrd_join, &call);
    return call.returned;
}

/* Its results are not thrd_ values. */
int thrd_sleep(const struct timespec *duration, struct timespec *rest)
{
    int error = clock_nanosleep(CLOCK_REALTIME, 0, duration, rest);
    return error == 0 ? 0 : error == EINTR ? -1 : -2;
}

void thrd_yield(void)
{
    sched_yield();
}
