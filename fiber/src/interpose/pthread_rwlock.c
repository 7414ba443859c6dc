/*
 * pthread_rwlock.c: pthread's read-write locks. The lock stays libc's (see acquire.h).
 */
#include "../lock.h"
#include "../report/report.h"
#include "acquire.h"
#include "fork.h"
#include "libc.h"
#include "ownership.h"
#include "timespec.h"
#include "waiters.h"
#include "../check.h"

#include <string.h>

MF_ALWAYS_LINKED(pthread_rwlock);

/* Fibers that wait to write. libc does not see them, but a lock that prefers writers must make readers wait for
   them. */
typedef struct writer {
    struct writer *next;
    const void *lock;
} writer;

static struct {
    mf_lock lock;
    atomic_uint count;
    writer *first;
} writers[MF_ADDRESS_BUCKETS];

/* The fibers that waited to write do not exist in the child. */
void mf_rwlock_forget_after_fork(void)
{
    memset(writers, 0, sizeof writers);
}

static bool prefers_writers(const pthread_rwlock_t *lock)
{
    return lock->__data.__flags == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

static void begin_writing(writer *own, const void *lock)
{
    size_t index = mf_address_bucket(lock);
    mf_lock_acquire(&writers[index].lock);
    *own = (writer){.next = writers[index].first, .lock = lock};
    writers[index].first = own;
    atomic_fetch_add(&writers[index].count, 1);
    mf_lock_release(&writers[index].lock);
}

static void end_writing(const writer *own)
{
    size_t index = mf_address_bucket(own->lock);
    mf_lock_acquire(&writers[index].lock);
    writer **link = &writers[index].first;
    while (*link && *link != own)
        link = &(*link)->next;
    MR_CHECK(*link == own);
    *link = own->next;
    atomic_fetch_sub(&writers[index].count, 1);
    mf_lock_release(&writers[index].lock);
}

static bool is_wanted_by_writer(const void *lock)
{
    size_t index = mf_address_bucket(lock);
    if (!atomic_load(&writers[index].count))
        return false;
    mf_lock_acquire(&writers[index].lock);
    const writer *each = writers[index].first;
    while (each && each->lock != lock)
        each = each->next;
    mf_lock_release(&writers[index].lock);
    return each;
}

static int try_read_lock(void *lock)
{
    return prefers_writers(lock) && is_wanted_by_writer(lock) ? EBUSY : LIBC(pthread_rwlock_tryrdlock)(lock);
}

static int try_write_lock(void *lock)
{
    int error = LIBC(pthread_rwlock_trywrlock)(lock);
    if (error == 0)
        mf_ownership_begin(lock);
    return error;
}

static int acquire_rwlock(pthread_rwlock_t *lock, mf_try try_lock, uint64_t deadline_ns)
{
    writer own;
    bool must_be_seen = try_lock == try_write_lock && prefers_writers(lock);
    if (must_be_seen)
        begin_writing(&own, lock);
    int error = mf_acquire(lock, try_lock, deadline_ns, MF_UNINTERRUPTIBLE);
    if (must_be_seen)
        end_writing(&own);
    if (must_be_seen && error) /* readers need not wait for this writer any more */
        mf_wake_all(lock);
    return error;
}

/* A writer that locks again gets EDEADLK, as from libc. */
static int lock_rwlock(pthread_rwlock_t *lock, mf_try try_lock, uint64_t deadline_ns)
{
    int before = errno;
    int error = try_lock(lock);
    if (mf_is_taken(error))
        error = mf_ownership_is_by_caller(lock) ? EDEADLK : acquire_rwlock(lock, try_lock, deadline_ns);
    errno = before;
    return error;
}

int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
    return mf_current ? mf_note_tried(mf_note_taken(lock, try_read_lock(lock), MF_CALL_SITE))
                      : LIBC(pthread_rwlock_tryrdlock)(lock);
}

int pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
    return mf_current ? mf_note_tried(mf_note_taken(lock, try_write_lock(lock), MF_CALL_SITE))
                      : LIBC(pthread_rwlock_trywrlock)(lock);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    return mf_current ? mf_note_taken(lock, lock_rwlock(lock, try_read_lock, MR_NO_DEADLINE), MF_CALL_SITE)
                      : LIBC(pthread_rwlock_rdlock)(lock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    return mf_current ? mf_note_taken(lock, lock_rwlock(lock, try_write_lock, MR_NO_DEADLINE), MF_CALL_SITE)
                      : LIBC(pthread_rwlock_wrlock)(lock);
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_deadline(CLOCK_REALTIME, until))
        return LIBC(pthread_rwlock_timedrdlock)(lock, until);
    return mf_note_taken(lock, lock_rwlock(lock, try_read_lock, mf_deadline_on(CLOCK_REALTIME, until)), MF_CALL_SITE);
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_deadline(CLOCK_REALTIME, until))
        return LIBC(pthread_rwlock_timedwrlock)(lock, until);
    return mf_note_taken(lock, lock_rwlock(lock, try_write_lock, mf_deadline_on(CLOCK_REALTIME, until)), MF_CALL_SITE);
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_deadline(clock, until))
        return LIBC(pthread_rwlock_clockrdlock)(lock, clock, until);
    return mf_note_taken(lock, lock_rwlock(lock, try_read_lock, mf_deadline_on(clock, until)), MF_CALL_SITE);
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_deadline(clock, until))
        return LIBC(pthread_rwlock_clockwrlock)(lock, clock, until);
    return mf_note_taken(lock, lock_rwlock(lock, try_write_lock, mf_deadline_on(clock, until)), MF_CALL_SITE);
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
    if (mf_current) {
        mf_held_note_unlock(lock);
        if (__atomic_load_n(&lock->__data.__cur_writer, __ATOMIC_RELAXED))
            mf_ownership_end(lock);
    }
    int error = LIBC(pthread_rwlock_unlock)(lock);
    if (error == 0)
        mf_wake_all(lock);
    return error;
}

ALIAS(__pthread_rwlock_rdlock, pthread_rwlock_rdlock);

ALIAS(__pthread_rwlock_tryrdlock, pthread_rwlock_tryrdlock);

ALIAS(__pthread_rwlock_wrlock, pthread_rwlock_wrlock);

ALIAS(__pthread_rwlock_trywrlock, pthread_rwlock_trywrlock);

ALIAS(__pthread_rwlock_unlock, pthread_rwlock_unlock);
