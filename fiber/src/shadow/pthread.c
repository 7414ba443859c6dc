/*
 * pthread.c: pthread's locks, where a fiber that would have to wait parks.
 *
 * The lock itself stays libc's: taking it is a try, giving it up is libc's own call, and OS threads notice no
 * difference. What is added is who waits: fibers that found a lock taken wait in a table by its address, and whoever
 * gives the lock up looks there. Code that unlocks inside libc (a thread in pthread_cond_wait) does not look; a parked
 * fiber therefore tries again by itself after a pause as well.
 *
 * libc knows the owner of a mutex by its thread, which is the same for all fibers of a carrier. That is as wanted where
 * the owner unlocks (fibers are pinned), and wrong where a recursive or error-checking mutex asks whether the caller is
 * the owner: for those the table of owners below knows the fiber.
 */
#include "../offload.h"
#include "../report/report.h"
#include "blocking.h"
#include "callable.h"
#include "cleanups.h"
#include "fork.h"
#include "libc.h"
#include "timespec.h"
#include "waiters.h"

#include <limits.h>
#include <string.h>

enum { PAUSE_FIRST_MS = 1, PAUSE_LAST_MS = MF_WAITER_PAUSE_MS };

#define NS_PER_MS UINT64_C(1000000)

/* Wakes one fiber or all that wait for the address; true if there was one. */
static bool wake(const void *address, bool all)
{
    return mf_waiters_wake(address, all ? UINT_MAX : 1, MF_ANY_BITS) > 0;
}

/* ------------------------------------------------------------------------------------------ trying, and waiting --- */

/* One attempt at a lock: 0, EBUSY or EAGAIN (taken), ETIMEDOUT never, or another error that is final. */
typedef int (*mf_try)(void *lock);

static bool is_taken(int error)
{
    return error == EBUSY || error == EAGAIN;
}

/* Parks until the lock may be free. Enters first and tries once more then, so that no wake is missed. */
static int wait_and_try(void *lock, mf_try try_lock, uint64_t deadline_ns, unsigned pause_ms, int *interruption)
{
    mf_waiter waiter;
    mf_waiter_enter(&waiter, lock, MF_ANY_BITS);
    int error = try_lock(lock);
    if (!is_taken(error))
        mf_wait_claim_own(&waiter.wait, 0);
    uint64_t until_ns = mf_earlier(deadline_ns, mr_clock_now_ns() + pause_ms * NS_PER_MS);
    int outcome = mf_wait_park(&waiter.wait, until_ns, interruption ? MF_INTERRUPTIBLE : MF_UNINTERRUPTIBLE);
    mf_waiter_leave(&waiter);
    if (interruption && outcome < 0 && outcome != MF_DEADLINE_PASSED)
        *interruption = -outcome;
    return error;
}

/* 0, ETIMEDOUT, or what try_lock or an interruption said. Who was interrupted does not try again: the interruption would
 * be lost with success. */
static int acquire(void *lock, mf_try try_lock, uint64_t deadline_ns, bool interruptible)
{
    int interruption = 0;
    int error = try_lock(lock);
    for (unsigned pause_ms = PAUSE_FIRST_MS; is_taken(error); pause_ms *= pause_ms < PAUSE_LAST_MS ? 2 : 1) {
        if (deadline_ns != MR_NO_DEADLINE && mr_clock_now_ns() >= deadline_ns)
            return ETIMEDOUT;
        error = wait_and_try(lock, try_lock, deadline_ns, pause_ms, interruptible ? &interruption : NULL);
        if (is_taken(error) && interruption)
            return interruption;
        if (is_taken(error))
            error = try_lock(lock);
    }
    return error;
}

static bool is_known(clockid_t clock)
{
    return clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME;
}

static bool is_valid(clockid_t clock, const struct timespec *t)
{
    return t && mf_is_valid_fraction(t->tv_nsec) && is_known(clock);
}

/* -------------------------------------------------------------- owners of recursive mutexes, and those who write --- */

typedef struct ownership {
    struct ownership *next;
    const void *lock;
    const mr_fiber *owner;
    const mf_carrier *carrier; /* the owner's */
    unsigned depth;
} ownership;

static struct {
    mf_lock lock;
    ownership *first;
} owned[MF_ADDRESS_BUCKETS];

/* libc sees no fiber that waits to write. Where writers come first, readers must. */
typedef struct writer {
    struct writer *next;
    const void *lock;
} writer;

static struct {
    mf_lock lock;
    atomic_uint count;
    writer *first;
} writers[MF_ADDRESS_BUCKETS];

/* Whoever waited or held a lock of ours is a fiber or a thread that does not exist in the child. */
void mf_pthread_forget_after_fork(void)
{
    memset(writers, 0, sizeof writers);
    for (size_t i = 0; i < MF_ADDRESS_BUCKETS; i++)
        atomic_store(&owned[i].lock.state, 0);
}

/* glibc keeps the type in the low bits of __kind (pthreadP.h, PTHREAD_MUTEX_KIND_MASK_NP). */
static bool knows_its_owner(const pthread_mutex_t *mutex)
{
    int type = mutex->__data.__kind & 3;
    return type == PTHREAD_MUTEX_RECURSIVE_NP || type == PTHREAD_MUTEX_ERRORCHECK_NP;
}

typedef bool whose(const ownership *each);

static bool is_callers(const ownership *each)
{
    return each->owner == mf_current;
}

static bool is_neighbours(const ownership *each)
{
    return each->owner != mf_current && each->carrier == mf_this_carrier;
}

/* The link to it, or to the end of the list. With the bucket locked. */
static ownership **find(size_t index, const void *lock, whose *is_wanted)
{
    ownership **link = &owned[index].first;
    while (*link && ((*link)->lock != lock || !is_wanted(*link)))
        link = &(*link)->next;
    return link;
}

static bool is_owned(const void *lock, whose *is_wanted)
{
    size_t index = mf_address_bucket(lock);
    mf_lock_take(&owned[index].lock);
    bool found = *find(index, lock, is_wanted) != NULL;
    mf_lock_give(&owned[index].lock);
    return found;
}

/* By another fiber of this carrier: libc would take that fiber for the caller. */
static bool is_held_by_neighbour(const pthread_mutex_t *mutex)
{
    return is_owned(mutex, is_neighbours);
}

static bool is_own(const void *lock)
{
    return is_owned(lock, is_callers);
}

static void note_locked(const void *lock)
{
    size_t index = mf_address_bucket(lock);
    ownership *fresh = malloc(sizeof *fresh);
    mf_lock_take(&owned[index].lock);
    ownership *found = *find(index, lock, is_callers);
    if (!found && fresh) {
        *fresh = (ownership){.next = owned[index].first, .lock = lock, .owner = mf_current, .carrier = mf_this_carrier};
        found = owned[index].first = fresh;
        fresh = NULL;
    }
    if (found)
        found->depth++;
    mf_lock_give(&owned[index].lock);
    free(fresh);
}

static void note_unlocked(const void *lock)
{
    size_t index = mf_address_bucket(lock);
    mf_lock_take(&owned[index].lock);
    ownership **link = find(index, lock, is_callers), *gone = *link;
    if (gone && --gone->depth == 0)
        *link = gone->next;
    else
        gone = NULL;
    mf_lock_give(&owned[index].lock);
    free(gone);
}

/* ------------------------------------------------------------------------------------------------------ mutexes --- */

/* glibc keeps what has become of a robust mutex whose owner died in place of its owner (pthreadP.h). Its trylock would
 * take a lost one, say so, and keep it (pthread_mutex_trylock.c): whoever asks next would wait for ever. */
static bool is_lost(const pthread_mutex_t *mutex)
{
    enum { ROBUST = 16, NOT_RECOVERABLE = INT_MAX - 1 };
    return (mutex->__data.__kind & ROBUST) &&
           __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == NOT_RECOVERABLE;
}

/* EDEADLK is the answer of an error-checking mutex to its owner's lock; trylock would say EBUSY. */
static int try_mutex(void *lock)
{
    pthread_mutex_t *mutex = lock;
    if (is_lost(mutex))
        return ENOTRECOVERABLE;
    if (!knows_its_owner(mutex))
        return LIBC(pthread_mutex_trylock)(mutex);
    if (is_held_by_neighbour(mutex))
        return EBUSY;
    int error = LIBC(pthread_mutex_trylock)(mutex);
    if (error == 0 || error == EOWNERDEAD) /* a robust one's last owner died with it: it is ours all the same */
        note_locked(mutex);
    return error;
}

static bool is_own_errorcheck(const pthread_mutex_t *mutex)
{
    return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK_NP && is_own(mutex);
}

static int lock_mutex(pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    if (is_own_errorcheck(mutex))
        return EDEADLK;
    int before = errno;
    int error = acquire(mutex, try_mutex, deadline_ns, false);
    errno = before;
    return error;
}

/* A lock that is free is taken whatever the deadline; only who has to wait is told that it is no time. */
static int lock_mutex_at_once(pthread_mutex_t *mutex)
{
    int error = is_own_errorcheck(mutex) ? EDEADLK : try_mutex(mutex);
    return is_taken(error) ? EINVAL : error;
}

static int lock_mutex_until(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    return is_valid(clock, until) ? lock_mutex(mutex, mf_deadline_on(clock, until)) : lock_mutex_at_once(mutex);
}

/* On a fiber: a lock was taken, unless there was an error, by a call made at `place`. */
static int note_taken(const void *lock, int error, const void *place)
{
    if (error == 0 || error == EOWNERDEAD)
        mf_held_note_lock(lock, place);
    return error;
}

#define PLACE __builtin_return_address(0)

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return mf_current ? note_taken(mutex, lock_mutex(mutex, MR_NO_DEADLINE), PLACE) : LIBC(pthread_mutex_lock)(mutex);
}

static int note_tried(int error)
{
    if (is_taken(error))
        mf_spend_turn();
    return error;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    return mf_current ? note_tried(note_taken(mutex, try_mutex(mutex), PLACE)) : LIBC(pthread_mutex_trylock)(mutex);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
    return mf_current ? note_taken(mutex, lock_mutex_until(mutex, CLOCK_REALTIME, until), PLACE)
                      : LIBC(pthread_mutex_timedlock)(mutex, until);
}

int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    if (!mf_current || !is_known(clock))
        return LIBC(pthread_mutex_clocklock)(mutex, clock, until);
    return note_taken(mutex, lock_mutex_until(mutex, clock, until), PLACE);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    bool on_fiber = mf_current != NULL;
    if (on_fiber && knows_its_owner(mutex)) {
        if (is_held_by_neighbour(mutex))
            return EPERM;
        note_unlocked(mutex);
    }
    if (on_fiber)
        mf_held_note_unlock(mutex);
    int error = LIBC(pthread_mutex_unlock)(mutex);
    if (error == 0)
        wake(mutex, false);
    return error;
}

ALIAS(__pthread_mutex_lock, pthread_mutex_lock);

ALIAS(__pthread_mutex_trylock, pthread_mutex_trylock);

ALIAS(__pthread_mutex_unlock, pthread_mutex_unlock);

/* ------------------------------------------------------------------------------------------ condition variables --- */

/* glibc keeps it in the first bit of __wrefs (pthread_cond_common.c), and the clock in the second. */
static bool is_shared(const pthread_cond_t *condition)
{
    return condition->__data.__wrefs & 1;
}

static clockid_t clock_of(const pthread_cond_t *condition)
{
    return condition->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/* Fibers wait in the table, threads in libc's variable. A fiber has entered before it gives up the mutex, so that
 * whoever signals under the mutex, or after it, finds it. */
static int wait_for_condition(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    mf_waiter waiter;
    int before = errno;
    bool is_for_processes = is_shared(condition);
    mf_waiter_enter(&waiter, condition, MF_ANY_BITS);
    int error = pthread_mutex_unlock(mutex);
    if (error)
        mf_wait_claim_own(&waiter.wait, 0);
    int outcome = mf_waiter_park(&waiter, is_for_processes, deadline_ns);
    mf_waiter_leave(&waiter);
    if (error)
        return error;
    error = note_taken(mutex, lock_mutex(mutex, MR_NO_DEADLINE), PLACE);
    errno = before;
    if (error) /* of a robust mutex whose owner has died */
        return error;
    /* An interruption is a spurious wake-up, and left to the next wait that can fail by it. */
    return outcome == MF_DEADLINE_PASSED ? ETIMEDOUT : 0;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return mf_current ? wait_for_condition(condition, mutex, MR_NO_DEADLINE)
                      : LIBC(pthread_cond_wait)(condition, mutex);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (!mf_current || !is_valid(CLOCK_REALTIME, until))
        return LIBC(pthread_cond_timedwait)(condition, mutex, until);
    return wait_for_condition(condition, mutex, mf_deadline_on(clock_of(condition), until));
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until)
{
    if (!mf_current || !is_valid(clock, until))
        return LIBC(pthread_cond_clockwait)(condition, mutex, clock, until);
    return wait_for_condition(condition, mutex, mf_deadline_on(clock, until));
}

/* "At least one" of those that wait: a fiber if there is one, else a thread. */
int pthread_cond_signal(pthread_cond_t *condition)
{
    return wake(condition, false) ? 0 : LIBC(pthread_cond_signal)(condition);
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
    wake(condition, true);
    return LIBC(pthread_cond_broadcast)(condition);
}

/* ------------------------------------------------------------------------------------------ readers and writers --- */

static bool prefers_writers(const pthread_rwlock_t *lock)
{
    return lock->__data.__flags == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

static void begin_writing(writer *own, const void *lock)
{
    size_t index = mf_address_bucket(lock);
    mf_lock_take(&writers[index].lock);
    *own = (writer){.next = writers[index].first, .lock = lock};
    writers[index].first = own;
    atomic_fetch_add(&writers[index].count, 1);
    mf_lock_give(&writers[index].lock);
}

static void end_writing(const writer *own)
{
    size_t index = mf_address_bucket(own->lock);
    mf_lock_take(&writers[index].lock);
    writer **link = &writers[index].first;
    while (*link != own)
        link = &(*link)->next;
    *link = own->next;
    atomic_fetch_sub(&writers[index].count, 1);
    mf_lock_give(&writers[index].lock);
}

static bool is_wanted_by_writer(const void *lock)
{
    size_t index = mf_address_bucket(lock);
    if (!atomic_load(&writers[index].count))
        return false;
    mf_lock_take(&writers[index].lock);
    const writer *each = writers[index].first;
    while (each && each->lock != lock)
        each = each->next;
    mf_lock_give(&writers[index].lock);
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
        note_locked(lock);
    return error;
}

static int acquire_rwlock(pthread_rwlock_t *lock, mf_try try_lock, uint64_t deadline_ns)
{
    writer own;
    bool must_be_seen = try_lock == try_write_lock && prefers_writers(lock);
    if (must_be_seen)
        begin_writing(&own, lock);
    int error = acquire(lock, try_lock, deadline_ns, false);
    if (must_be_seen)
        end_writing(&own);
    if (must_be_seen && error) /* the readers need wait no longer */
        wake(lock, true);
    return error;
}

/* Who writes and asks again is told so, as by libc, which knows the writer by its thread. */
static int lock_rwlock(pthread_rwlock_t *lock, mf_try try_lock, uint64_t deadline_ns)
{
    int before = errno;
    int error = try_lock(lock);
    if (is_taken(error))
        error = is_own(lock) ? EDEADLK : acquire_rwlock(lock, try_lock, deadline_ns);
    errno = before;
    return error;
}

int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
    return mf_current ? note_tried(note_taken(lock, try_read_lock(lock), PLACE)) : LIBC(pthread_rwlock_tryrdlock)(lock);
}

int pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
    return mf_current ? note_tried(note_taken(lock, try_write_lock(lock), PLACE))
                      : LIBC(pthread_rwlock_trywrlock)(lock);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    return mf_current ? note_taken(lock, lock_rwlock(lock, try_read_lock, MR_NO_DEADLINE), PLACE)
                      : LIBC(pthread_rwlock_rdlock)(lock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    return mf_current ? note_taken(lock, lock_rwlock(lock, try_write_lock, MR_NO_DEADLINE), PLACE)
                      : LIBC(pthread_rwlock_wrlock)(lock);
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until)
{
    if (!mf_current || !is_valid(CLOCK_REALTIME, until))
        return LIBC(pthread_rwlock_timedrdlock)(lock, until);
    return note_taken(lock, lock_rwlock(lock, try_read_lock, mf_deadline_on(CLOCK_REALTIME, until)), PLACE);
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until)
{
    if (!mf_current || !is_valid(CLOCK_REALTIME, until))
        return LIBC(pthread_rwlock_timedwrlock)(lock, until);
    return note_taken(lock, lock_rwlock(lock, try_write_lock, mf_deadline_on(CLOCK_REALTIME, until)), PLACE);
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until)
{
    if (!mf_current || !is_valid(clock, until))
        return LIBC(pthread_rwlock_clockrdlock)(lock, clock, until);
    return note_taken(lock, lock_rwlock(lock, try_read_lock, mf_deadline_on(clock, until)), PLACE);
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until)
{
    if (!mf_current || !is_valid(clock, until))
        return LIBC(pthread_rwlock_clockwrlock)(lock, clock, until);
    return note_taken(lock, lock_rwlock(lock, try_write_lock, mf_deadline_on(clock, until)), PLACE);
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
    if (mf_current) {
        mf_held_note_unlock(lock);
        if (__atomic_load_n(&lock->__data.__cur_writer, __ATOMIC_RELAXED))
            note_unlocked(lock);
    }
    int error = LIBC(pthread_rwlock_unlock)(lock);
    if (error == 0)
        wake(lock, true);
    return error;
}

ALIAS(__pthread_rwlock_rdlock, pthread_rwlock_rdlock);

ALIAS(__pthread_rwlock_tryrdlock, pthread_rwlock_tryrdlock);

ALIAS(__pthread_rwlock_wrlock, pthread_rwlock_wrlock);

ALIAS(__pthread_rwlock_trywrlock, pthread_rwlock_trywrlock);

ALIAS(__pthread_rwlock_unlock, pthread_rwlock_unlock);

/* --------------------------------------------------------------------------------------------------- spin locks --- */

/* Its owner may be a fiber of the same carrier, which has to run before it can give the lock up. */
int pthread_spin_lock(pthread_spinlock_t *lock)
{
    if (!mf_current)
        return LIBC(pthread_spin_lock)(lock);
    while (LIBC(pthread_spin_trylock)(lock) != 0)
        mr_fiber_yield();
    return 0;
}

int pthread_spin_trylock(pthread_spinlock_t *lock)
{
    return mf_current ? note_tried(LIBC(pthread_spin_trylock)(lock)) : LIBC(pthread_spin_trylock)(lock);
}

/* --------------------------------------------------------------------------------------------------- semaphores --- */

static int try_semaphore(void *lock)
{
    return LIBC(sem_trywait)(lock) == 0 ? 0 : errno;
}

static int wait_for_semaphore(sem_t *semaphore, uint64_t deadline_ns)
{
    int before = errno;
    int error = acquire(semaphore, try_semaphore, deadline_ns, true);
    errno = error ? error : before;
    return error ? -1 : 0;
}

int sem_trywait(sem_t *semaphore)
{
    int result = LIBC(sem_trywait)(semaphore);
    if (mf_current && result)
        mf_spend_turn();
    return result;
}

int sem_wait(sem_t *semaphore)
{
    return mf_current ? wait_for_semaphore(semaphore, MR_NO_DEADLINE) : LIBC(sem_wait)(semaphore);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    if (!mf_current || !is_valid(CLOCK_REALTIME, until))
        return LIBC(sem_timedwait)(semaphore, until);
    return wait_for_semaphore(semaphore, mf_deadline_on(CLOCK_REALTIME, until));
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    if (!mf_current || !is_valid(clock, until))
        return LIBC(sem_clockwait)(semaphore, clock, until);
    return wait_for_semaphore(semaphore, mf_deadline_on(clock, until));
}

int sem_post(sem_t *semaphore)
{
    int result = LIBC(sem_post)(semaphore);
    if (result == 0)
        wake(semaphore, false);
    return result;
}

/* ------------------------------------------------------------------------------ threads, barriers, pthread_once --- */

typedef struct errand {
    pthread_t thread;
    void **value;
    int result;
} errand;

static void run_join(void *argument)
{
    errand *e = argument;
    e->result = LIBC(pthread_join)(e->thread, e->value);
}

int pthread_join(pthread_t thread, void **value)
{
    if (!mf_current)
        return LIBC(pthread_join)(thread, value);
    if (pthread_equal(thread, pthread_self())) /* which a helper could not tell */
        return EDEADLK;
    errand e = {.thread = thread, .value = value};
    mf_offload_alone(run_join, &e);
    return e.result;
}

typedef struct barrier_errand {
    pthread_barrier_t *barrier;
    int result;
} barrier_errand;

static void run_barrier_wait(void *argument)
{
    barrier_errand *e = argument;
    e->result = LIBC(pthread_barrier_wait)(e->barrier);
}

/* A thread of its own for each fiber that waits: nothing tells how many libc still waits for. */
int pthread_barrier_wait(pthread_barrier_t *barrier)
{
    if (!mf_current)
        return LIBC(pthread_barrier_wait)(barrier);
    barrier_errand e = {.barrier = barrier};
    mf_offload_alone(run_barrier_wait, &e);
    return e.result;
}

#ifdef __SANITIZE_THREAD__ /* has a pthread_once of its own (tsan_interceptors_posix.cpp), which knows no fork */
#define ONCE_IN_PROGRESS (1 << 16)
#define ONCE_DONE        1

static bool is_begun_here(int state)
{
    return state & ONCE_IN_PROGRESS;
}
#else /* glibc's states (pthreadP.h) */
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

/* The rest of the state tells which process began: what its parent was initializing, a child begins anew. */
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

/* While another fiber, or a thread, runs the initializer, a fiber parks: libc would block the carrier, on which the
 * initializer may have to go on. It is another's turn when that one has thrown an exception. */
static void wait_for_initializer(pthread_once_t *control)
{
    int before = errno;
    mf_callable own = mf_callable_get();
    acquire(control, try_to_begin_once, MR_NO_DEADLINE, false);
    mf_callable_put(own);
    errno = before;
}

static _Thread_local void (*next_initializer)(void);

/* libc has a cleanup for the case that it throws. */
static void initialize_leaving_cleanups(void)
{
    void (*initialize)(void) = next_initializer;
    mf_cleanup *inner = mf_cleanups_exchange(NULL);
    mf_cleanups_exchange(inner ? inner->__prev : NULL);
    initialize();
    mf_cleanups_exchange(inner);
}

/* Between the look and the call no other fiber of this carrier runs. */
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
    wake(control, true);
    return error;
}

ALIAS(__pthread_once, pthread_once);
