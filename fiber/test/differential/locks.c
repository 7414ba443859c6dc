/*
 * locks.c: calls that use no descriptor but wait, until a deadline, for a lock that another thread holds.
 */
#include "differential.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT_MS = 15, HELP_MS = 30, PATIENCE_SECONDS = 20 };

static void open_nothing(world *w)
{
    w->descriptor = -1;
    w->peer = -1;
}

#ifdef __SANITIZE_THREAD__
/* GCC 12's TSan does not know pthread_mutex_clocklock and pthread_rwlock_clock*lock, and does not notice that these
 * take the lock. GCC 15's takes a call with an invalid time for one with an invalid mutex. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "mutex:^give_mutex$\nmutex:^give_rwlock$\nmutex:^mutex_clocklock$\n";
}
#endif

const kind no_descriptor = {.name = "no_descriptor", .open = open_nothing};

/* ------------------------------------------------------------------------------------------- what is waited for --- */

typedef struct locks {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool is_set; /* what the condition says */
    pthread_rwlock_t rwlock;
    sem_t semaphore;
} locks;

static void init(locks *l)
{
    CHECK_EQ(pthread_mutex_init(&l->mutex, NULL), 0);
    CHECK_EQ(pthread_cond_init(&l->condition, NULL), 0);
    CHECK_EQ(pthread_rwlock_init(&l->rwlock, NULL), 0);
    CHECK_EQ(sem_init(&l->semaphore, 0, 1), 0);
    l->is_set = true;
}

static void end(locks *l)
{
    pthread_mutex_destroy(&l->mutex);
    pthread_cond_destroy(&l->condition);
    pthread_rwlock_destroy(&l->rwlock);
    sem_destroy(&l->semaphore);
}

static void take_mutex(locks *l)
{
    CHECK_EQ(pthread_mutex_lock(&l->mutex), 0);
}

static void give_mutex(locks *l)
{
    CHECK_EQ(pthread_mutex_unlock(&l->mutex), 0);
}

static void set_condition(locks *l, bool is_set)
{
    take_mutex(l);
    l->is_set = is_set;
    CHECK_EQ(pthread_cond_signal(&l->condition), 0);
    give_mutex(l);
}

static void take_condition(locks *l)
{
    set_condition(l, false);
}

static void give_condition(locks *l)
{
    set_condition(l, true);
}

static void take_rwlock(locks *l)
{
    CHECK_EQ(pthread_rwlock_wrlock(&l->rwlock), 0);
}

static void give_rwlock(locks *l)
{
    CHECK_EQ(pthread_rwlock_unlock(&l->rwlock), 0);
}

static void take_semaphore(locks *l)
{
    CHECK_EQ(sem_wait(&l->semaphore), 0);
}

static void give_semaphore(locks *l)
{
    CHECK_EQ(sem_post(&l->semaphore), 0);
}

/* ---------------------------------------------------------------------------------------------------- the calls --- */

static int mutex_clocklock(locks *l, clockid_t clock, const struct timespec *until)
{
    return pthread_mutex_clocklock(&l->mutex, clock, until);
}

static int mutex_timedlock(locks *l, clockid_t clock, const struct timespec *until)
{
    (void)clock;
    return pthread_mutex_timedlock(&l->mutex, until);
}

static int cond_clockwait(locks *l, clockid_t clock, const struct timespec *until)
{
    int error = 0;
    take_mutex(l);
    while (!l->is_set && !error)
        error = pthread_cond_clockwait(&l->condition, &l->mutex, clock, until);
    give_mutex(l);
    return error;
}

static int cond_timedwait(locks *l, clockid_t clock, const struct timespec *until)
{
    int error = 0;
    (void)clock;
    take_mutex(l);
    while (!l->is_set && !error)
        error = pthread_cond_timedwait(&l->condition, &l->mutex, until);
    give_mutex(l);
    return error;
}

static int rwlock_clockrdlock(locks *l, clockid_t clock, const struct timespec *until)
{
    return pthread_rwlock_clockrdlock(&l->rwlock, clock, until);
}

static int rwlock_clockwrlock(locks *l, clockid_t clock, const struct timespec *until)
{
    return pthread_rwlock_clockwrlock(&l->rwlock, clock, until);
}

static int rwlock_timedrdlock(locks *l, clockid_t clock, const struct timespec *until)
{
    (void)clock;
    return pthread_rwlock_timedrdlock(&l->rwlock, until);
}

static int rwlock_timedwrlock(locks *l, clockid_t clock, const struct timespec *until)
{
    (void)clock;
    return pthread_rwlock_timedwrlock(&l->rwlock, until);
}

static int sem_clockwait_(locks *l, clockid_t clock, const struct timespec *until)
{
    return sem_clockwait(&l->semaphore, clock, until);
}

static int sem_timedwait_(locks *l, clockid_t clock, const struct timespec *until)
{
    (void)clock;
    return sem_timedwait(&l->semaphore, until);
}

static void keep_condition(locks *l)
{
    (void)l;
}

/* A call, the clock of its deadline, and what it waits for. */
typedef struct waiting {
    int (*wait)(locks *l, clockid_t clock, const struct timespec *until);
    clockid_t clock;
    void (*take)(locks *l);
    void (*give)(locks *l);
    void (*undo)(locks *l); /* after the call got it */
} waiting;

/* X(name, call, clock, what it waits for, how to undo it) */
#define WAITINGS(X)                                                                         \
    X(mutex_clocklock, mutex_clocklock, CLOCK_MONOTONIC, mutex, give_mutex)                 \
    X(mutex_clocklock_realtime, mutex_clocklock, CLOCK_REALTIME, mutex, give_mutex)         \
    X(mutex_timedlock, mutex_timedlock, CLOCK_REALTIME, mutex, give_mutex)                  \
    X(cond_clockwait, cond_clockwait, CLOCK_MONOTONIC, condition, keep_condition)           \
    X(cond_clockwait_realtime, cond_clockwait, CLOCK_REALTIME, condition, keep_condition)   \
    X(cond_timedwait, cond_timedwait, CLOCK_REALTIME, condition, keep_condition)            \
    X(rwlock_clockrdlock, rwlock_clockrdlock, CLOCK_MONOTONIC, rwlock, give_rwlock)         \
    X(rwlock_clockrdlock_realtime, rwlock_clockrdlock, CLOCK_REALTIME, rwlock, give_rwlock) \
    X(rwlock_timedrdlock, rwlock_timedrdlock, CLOCK_REALTIME, rwlock, give_rwlock)          \
    X(rwlock_clockwrlock, rwlock_clockwrlock, CLOCK_MONOTONIC, rwlock, give_rwlock)         \
    X(rwlock_clockwrlock_realtime, rwlock_clockwrlock, CLOCK_REALTIME, rwlock, give_rwlock) \
    X(rwlock_timedwrlock, rwlock_timedwrlock, CLOCK_REALTIME, rwlock, give_rwlock)          \
    X(sem_clockwait, sem_clockwait_, CLOCK_MONOTONIC, semaphore, give_semaphore)            \
    X(sem_clockwait_realtime, sem_clockwait_, CLOCK_REALTIME, semaphore, give_semaphore)    \
    X(sem_timedwait, sem_timedwait_, CLOCK_REALTIME, semaphore, give_semaphore)

/* ----------------------------------------------------------------------------------------- who has it, how long --- */

typedef enum circumstance {
    FREE,
    TAKEN,    /* and not released before the deadline */
    GIVEN_UP, /* before the deadline */
    PAST,     /* taken, and the deadline has passed before the call */
    EARLIEST, /* the same, and before the clock began */
    NO_TIME,  /* taken, and the deadline is no valid time */
    NO_CLOCK, /* taken, and no function can wait by this clock; calls that choose it see a deadline in the past */
} circumstance;

typedef struct holder {
    locks locks;
    const waiting *waiting;
    circumstance circumstance;
    atomic_bool is_taken, is_over;
} holder;

static void *hold(void *argument)
{
    holder *h = argument;
    h->waiting->take(&h->locks);
    atomic_store(&h->is_taken, true);
    if (h->circumstance == GIVEN_UP)
        usleep(HELP_MS * 1000);
    else
        while (!atomic_load(&h->is_over))
            usleep(200);
    h->waiting->give(&h->locks);
    return NULL;
}

static struct timespec deadline(clockid_t clock, circumstance c)
{
    struct timespec t;
    CHECK_EQ(clock_gettime(clock, &t), 0);
    t.tv_nsec += c == TAKEN ? TIMEOUT_MS * 1000000 : 0;
    t.tv_sec += c == TAKEN ? t.tv_nsec / 1000000000 : PATIENCE_SECONDS;
    t.tv_nsec %= 1000000000;
    if (c == PAST || c == NO_TIME || c == NO_CLOCK)
        t.tv_sec = 0;
    if (c == EARLIEST)
        t.tv_sec = -1;
    if (c == NO_TIME)
        t.tv_nsec = 1000000000;
    return t;
}

static int wait_as(const waiting *w, locks *l, circumstance c)
{
    struct timespec until = deadline(w->clock, c);
    int error = w->wait(l, c == NO_CLOCK ? CLOCK_PROCESS_CPUTIME_ID : w->clock, &until);
    if (error == 0)
        w->undo(l);
    return error;
}

/* The result of semaphores is -1, with errno; that of the others is the error. */
static void wait_for_holder(const waiting *w, circumstance c, outcome *o)
{
    pthread_t thread;
    holder h = {.waiting = w, .circumstance = c};
    init(&h.locks);
    if (c != FREE)
        CHECK_EQ(pthread_create(&thread, NULL, hold, &h), 0);
    while (c != FREE && !atomic_load(&h.is_taken))
        usleep(200);
    errno = 0;
    o->result = wait_as(w, &h.locks, c);
    int error = errno;
    atomic_store(&h.is_over, true);
    if (c != FREE)
        pthread_join(thread, NULL);
    end(&h.locks);
    errno = error;
}

/* --------------------------------------------------------------------------------------------------- as a table --- */

#define CALLS_IN(name, circumstance, CIRCUMSTANCE)                 \
    static void call_##name##_##circumstance(world *w, outcome *o) \
    {                                                              \
        (void)w;                                                   \
        wait_for_holder(&name##_waiting, CIRCUMSTANCE, o);         \
    }

#define DEFINE(name, call, clock, what, undo)                                            \
    static const waiting name##_waiting = {call, clock, take_##what, give_##what, undo}; \
    CALLS_IN(name, free, FREE)                                                           \
    CALLS_IN(name, taken, TAKEN)                                                         \
    CALLS_IN(name, given_up, GIVEN_UP)                                                   \
    CALLS_IN(name, past, PAST)                                                           \
    CALLS_IN(name, earliest, EARLIEST)                                                   \
    CALLS_IN(name, no_time, NO_TIME)                                                     \
    CALLS_IN(name, no_clock, NO_CLOCK)

WAITINGS(DEFINE)

static void call_sync(world *w, outcome *o)
{
    (void)w;
    sync();
    o->result = 0;
}

#define ROW(name, circumstance)                                                           \
    {                                                                                     \
#name "_" #circumstance, NEED_NOTHING, false, false, call_##name##_##circumstance \
    }

#define ROWS(name, call, clock, what, undo)                                                                           \
    ROW(name, free), ROW(name, taken), ROW(name, given_up), ROW(name, past), ROW(name, earliest), ROW(name, no_time), \
        ROW(name, no_clock),

static const call calls[] = {
    WAITINGS(ROWS){"sync", NEED_NOTHING, false, true, call_sync},
};

const call_table calls_without_descriptor = {calls, sizeof calls / sizeof *calls};
