/* pthread_rwlock.c: pthread's read-write locks, and deadlines that are never or long ago. */
#include "interpose_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>

typedef struct readers {
    pthread_rwlock_t lock;
    unsigned value, rounds;
    atomic_int inside;
} readers;

/* "Never" is a time, too. */
static void *wait_until_the_end_of_time(void *argument)
{
    const struct timespec never = {.tv_sec = INT64_MAX, .tv_nsec = 999999999};
    CHECK_EQ(sem_timedwait(argument, &never), 0);
    return NULL;
}

static void deadlines_beyond_all_clocks(void)
{
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    mr_fiber *fiber = spawn(wait_until_the_end_of_time, &semaphore);
    let_fibers_park();
    sem_post(&semaphore);
    join(fiber);
    sem_destroy(&semaphore);
}

static void *read_and_write(void *argument)
{
    readers *r = argument;
    for (unsigned i = 0; i < r->rounds; i++) {
        bool writes = i % 4 == 0;
        CHECK_EQ(writes ? pthread_rwlock_wrlock(&r->lock) : pthread_rwlock_rdlock(&r->lock), 0);
        int others = atomic_fetch_add(&r->inside, 1);
        if (writes)
            CHECK_EQ(others, 0);
        mr_fiber_yield();
        if (writes) /* even a reader that adds nothing writes here */
            r->value++;
        atomic_fetch_sub(&r->inside, 1);
        CHECK_EQ(pthread_rwlock_unlock(&r->lock), 0);
    }
    return NULL;
}

static void readers_and_writers(void)
{
    readers r = {.lock = PTHREAD_RWLOCK_INITIALIZER, .rounds = harness_rounds(400) & ~3u};
    mr_fiber *fibers[5];
    pthread_t thread;
    r.rounds = r.rounds ? r.rounds : 4;
    for (int i = 0; i < 5; i++)
        fibers[i] = spawn(read_and_write, &r);
    CHECK_EQ(pthread_create(&thread, NULL, read_and_write, &r), 0);
    for (int i = 0; i < 5; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(r.value, 6 * r.rounds / 4);
}

static void *lock_again_as_writer(void *argument)
{
    pthread_rwlock_t *lock = argument;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(i ? pthread_rwlock_trywrlock(lock) : pthread_rwlock_wrlock(lock), 0);
        CHECK_EQ(pthread_rwlock_rdlock(lock), EDEADLK);
        CHECK_EQ(pthread_rwlock_wrlock(lock), EDEADLK);
        CHECK_EQ(pthread_rwlock_timedrdlock(lock, &until), EDEADLK);
        CHECK_EQ(pthread_rwlock_timedwrlock(lock, &until), EDEADLK);
        CHECK_EQ(pthread_rwlock_trywrlock(lock), EBUSY);
        CHECK_EQ(pthread_rwlock_unlock(lock), 0);
    }
    return NULL;
}

static void a_writer_that_asks_again(void)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    on_fiber(lock_again_as_writer, &lock);
    on_fiber(lock_again_as_writer, &lock);
}

static mr_event *may_release;

static void *hold_as_writer(void *argument)
{
    CHECK_EQ(pthread_rwlock_wrlock(argument), 0);
    CHECK_EQ(mr_event_wait(may_release, MR_NO_DEADLINE), 0);
    CHECK_EQ(pthread_rwlock_unlock(argument), 0);
    return NULL;
}

/* A time before the clock began is in the past like any other. libc would treat the fiber as the owner. */
static void *be_too_late(void *argument)
{
    const struct timespec before_all_clocks = {.tv_sec = -3};
    CHECK_EQ(pthread_rwlock_timedwrlock(argument, &before_all_clocks), ETIMEDOUT);
    CHECK_EQ(pthread_rwlock_timedrdlock(argument, &before_all_clocks), ETIMEDOUT);
    return NULL;
}

static void a_deadline_before_all_clocks(void)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    CHECK_EQ(mr_event_create(&may_release), 0);
    mr_fiber *writer = spawn(hold_as_writer, &lock);
    let_fibers_park();
    on_fiber(be_too_late, &lock);
    mr_event_set(may_release);
    join(writer);
    mr_event_destroy(may_release);
}

typedef struct library {
    pthread_rwlock_t lock;
    atomic_bool is_over;
} library;

static library new_library(void)
{
    return (library){.lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP};
}

static void *read_again_and_again(void *argument)
{
    library *l = argument;
    while (!atomic_load(&l->is_over)) {
        CHECK_EQ(pthread_rwlock_rdlock(&l->lock), 0);
        usleep(5000);
        CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    }
    return NULL;
}

static void *write_once(void *argument)
{
    library *l = argument;
    CHECK_EQ(pthread_rwlock_wrlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    atomic_store(&l->is_over, true);
    return NULL;
}

/* There is always one that reads. */
static void readers_let_writers_go_first(void)
{
    enum { READERS = 3 };
    mr_fiber *all[READERS];
    library l = new_library();
    for (int i = 0; i < READERS; i++) {
        all[i] = spawn(read_again_and_again, &l);
        usleep(2000);
    }
    on_fiber(write_once, &l);
    for (int i = 0; i < READERS; i++)
        join(all[i]);
}

static void *write_soon_or_never(void *argument)
{
    struct timespec until;
    library *l = argument;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    CHECK_EQ(pthread_rwlock_tryrdlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_timedwrlock(&l->lock, &until), ETIMEDOUT);
    CHECK_EQ(pthread_rwlock_rdlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    return NULL;
}

static void *read_for_long(void *argument)
{
    library *l = argument;
    CHECK_EQ(pthread_rwlock_rdlock(&l->lock), 0);
    while (!atomic_load(&l->is_over))
        usleep(5000);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    return NULL;
}

static void *read_after_a_writer(void *argument)
{
    library *l = argument;
    CHECK_EQ(pthread_rwlock_tryrdlock(&l->lock), EBUSY);
    CHECK_EQ(pthread_rwlock_rdlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    return NULL;
}

static void a_writer_that_gives_up_lets_readers_go_on(void)
{
    library l = new_library();
    mr_fiber *first = spawn(read_for_long, &l);
    let_fibers_park();
    mr_fiber *writer = spawn(write_soon_or_never, &l);
    let_fibers_park();
    on_fiber(read_after_a_writer, &l);
    join(writer);
    atomic_store(&l.is_over, true);
    join(first);
}

const fiber_case pthread_rwlock_cases[] = {
    CASE(readers_let_writers_go_first),
    CASE(a_writer_that_gives_up_lets_readers_go_on),
    CASE(deadlines_beyond_all_clocks),
    CASE(readers_and_writers),
    CASE(a_writer_that_asks_again),
    CASE(a_deadline_before_all_clocks),
    {0},
};
