/* pthread_robust.c: robust mutexes, whose owners have died. */
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

typedef struct legacy {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
} legacy;

static void *signal_and_die(void *argument)
{
    legacy *l = argument;
    CHECK_EQ(pthread_mutex_lock(&l->mutex), 0);
    CHECK_EQ(pthread_cond_signal(&l->condition), 0);
    return NULL;
}

static void *inherit(void *argument)
{
    legacy *l = argument;
    CHECK_EQ(pthread_mutex_lock(&l->mutex), 0);
    CHECK_EQ(pthread_cond_wait(&l->condition, &l->mutex), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_consistent(&l->mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&l->mutex), 0);
    return NULL;
}

static void a_mutex_whose_owner_died_during_the_wait(void)
{
    if (!has_robust_mutexes())
        SKIP("this kernel does not report a mutex whose owner died");
    legacy l = {.condition = PTHREAD_COND_INITIALIZER};
    pthread_mutexattr_t robust;
    pthread_t thread;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&l.mutex, &robust);
    mr_fiber *heir = spawn(inherit, &l);
    let_fibers_park();
    CHECK_EQ(pthread_create(&thread, NULL, signal_and_die, &l), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    join(heir);
    pthread_mutex_destroy(&l.mutex);
}

static void *lock_and_die(void *argument)
{
    CHECK_EQ(pthread_mutex_lock(argument), 0);
    return NULL;
}

static mr_event *heir_may_unlock;

static void *inherit_and_hold(void *argument)
{
    CHECK_EQ(pthread_mutex_lock(argument), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_consistent(argument), 0);
    CHECK_EQ(mr_event_wait(heir_may_unlock, MR_NO_DEADLINE), 0);
    CHECK_EQ(pthread_mutex_unlock(argument), 0);
    return NULL;
}

static void *be_refused_by_the_heir(void *argument)
{
    CHECK_EQ(pthread_mutex_trylock(argument), EBUSY);
    CHECK_EQ(pthread_mutex_unlock(argument), EPERM);
    return NULL;
}

/* What was inherited is owned: by the fiber, not by its carrier. */
static void a_recursive_mutex_whose_owner_died(void)
{
    if (!has_robust_mutexes())
        SKIP("this kernel does not report a mutex whose owner died");
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_t thread;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    CHECK_EQ(pthread_mutex_init(&mutex, &attributes), 0);
    CHECK_EQ(mr_event_create(&heir_may_unlock), 0);
    CHECK_EQ(pthread_create(&thread, NULL, lock_and_die, &mutex), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    mr_fiber *heir = spawn(inherit_and_hold, &mutex);
    on_fiber(be_refused_by_the_heir, &mutex); /* on the same carrier, so after it */
    mr_event_set(heir_may_unlock);
    join(heir);
    CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    mr_event_destroy(heir_may_unlock);
    pthread_mutex_destroy(&mutex);
}

static void *lose(void *argument)
{
    CHECK_EQ(pthread_mutex_lock(argument), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_unlock(argument), 0);
    return NULL;
}

static void *ask_for_what_is_lost(void *argument)
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_mutex_lock(argument), ENOTRECOVERABLE);
        CHECK_EQ(pthread_mutex_trylock(argument), ENOTRECOVERABLE);
    }
    return NULL;
}

/* The new owner has not called pthread_mutex_consistent. */
static void a_mutex_that_cannot_be_recovered(void)
{
    if (!has_robust_mutexes())
        SKIP("this kernel does not report a mutex whose owner died");
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_t thread;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    CHECK_EQ(pthread_mutex_init(&mutex, &attributes), 0);
    CHECK_EQ(pthread_create(&thread, NULL, lock_and_die, &mutex), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    on_fiber(lose, &mutex);
    on_fiber(ask_for_what_is_lost, &mutex);
    CHECK_EQ(pthread_mutex_lock(&mutex), ENOTRECOVERABLE);
    pthread_mutex_destroy(&mutex);
}

const fiber_case pthread_robust_cases[] = {
    CASE(a_mutex_whose_owner_died_during_the_wait),
    CASE(a_recursive_mutex_whose_owner_died),
    CASE(a_mutex_that_cannot_be_recovered),
    {0},
};
