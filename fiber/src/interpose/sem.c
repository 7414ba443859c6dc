/* sem.c: POSIX's semaphores (sem_wait and the others). The semaphore stays libc's (see acquire.h). */
#include "acquire.h"
#include "blocking.h"
#include "libc.h"
#include "timespec.h"

MF_ALWAYS_LINKED(sem);

static int try_semaphore(void *lock)
{
    return LIBC(sem_trywait)(lock) == 0 ? 0 : errno;
}

static int wait_for_semaphore(sem_t *semaphore, uint64_t deadline_ns)
{
    int before = errno;
    int error = mf_acquire(semaphore, try_semaphore, deadline_ns, MF_INTERRUPTIBLE);
    errno = error ? error : before;
    return error ? -1 : 0;
}

int sem_trywait(sem_t *semaphore)
{
    int result = LIBC(sem_trywait)(semaphore);
    if (mf_current && result)
        mf_consume_budget();
    return result;
}

int sem_wait(sem_t *semaphore)
{
    return mf_current ? wait_for_semaphore(semaphore, MR_NO_DEADLINE) : LIBC(sem_wait)(semaphore);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_deadline(CLOCK_REALTIME, until))
        return LIBC(sem_timedwait)(semaphore, until);
    return wait_for_semaphore(semaphore, mf_deadline_on(CLOCK_REALTIME, until));
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_deadline(clock, until))
        return LIBC(sem_clockwait)(semaphore, clock, until);
    return wait_for_semaphore(semaphore, mf_deadline_on(clock, until));
}

int sem_post(sem_t *semaphore)
{
    int result = LIBC(sem_post)(semaphore);
    if (result == 0)
        mf_wake_one(semaphore);
    return result;
}
