/* pthread.c: pthread's mutexes and condition variables, among fibers of one carrier, OS threads and processes. */
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

typedef struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    unsigned counter;
    unsigned rounds;
    bool inside;
} shared;

static void init(shared *s, int type)
{
    pthread_mutexattr_t attributes;
    memset(s, 0, sizeof *s);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    CHECK_EQ(pthread_mutex_init(&s->mutex, &attributes), 0);
    CHECK_EQ(pthread_cond_init(&s->condition, NULL), 0);
    s->rounds = harness_rounds(600);
}

static void *count_with_pauses(void *argument)
{
    shared *s = argument;
    for (unsigned i = 0; i < s->rounds; i++) {
        CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
        CHECK(!s->inside);
        s->inside = true;
        s->counter++;
        if (i % 8 == 0)
            mr_fiber_yield();
        if (i % 100 == 0)
            usleep(100);
        s->inside = false;
        CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    }
    return NULL;
}

/* Fibers park while they hold the lock; with libc's lock their carrier would deadlock. */
static void exclusion(int type)
{
    shared s;
    mr_fiber *fibers[5];
    pthread_t thread;
    init(&s, type);
    for (int i = 0; i < 5; i++)
        fibers[i] = spawn(count_with_pauses, &s);
    CHECK_EQ(pthread_create(&thread, NULL, count_with_pauses, &s), 0);
    for (int i = 0; i < 5; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(s.counter, 6 * s.rounds);
}

static void a_normal_mutex(void)
{
    exclusion(PTHREAD_MUTEX_NORMAL);
}

/* libc knows the owner by its thread: without help every fiber of the carrier would be the owner. */
static void a_recursive_mutex(void)
{
    exclusion(PTHREAD_MUTEX_RECURSIVE);
}

static void an_error_checking_mutex(void)
{
    exclusion(PTHREAD_MUTEX_ERRORCHECK);
}

static mr_event *may_unlock;

static void *lock_twice(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    CHECK_EQ(pthread_mutex_trylock(&s->mutex), 0);
    CHECK_EQ(mr_event_wait(may_unlock, MR_NO_DEADLINE), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void *be_refused(void *argument)
{
    shared *s = argument;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    CHECK_EQ(pthread_mutex_trylock(&s->mutex), EBUSY);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), EPERM);
    CHECK_EQ(pthread_mutex_timedlock(&s->mutex, &until), ETIMEDOUT);
    return NULL;
}

static void recursion_is_the_fibers(void)
{
    shared s;
    init(&s, PTHREAD_MUTEX_RECURSIVE);
    CHECK_EQ(mr_event_create(&may_unlock), 0);
    mr_fiber *owner = spawn(lock_twice, &s);
    on_fiber(be_refused, &s); /* on the same carrier, so after it */
    mr_event_set(may_unlock);
    join(owner);
    on_fiber(lock_twice, &s);
    mr_event_destroy(may_unlock);
}

static const struct timespec no_time = {.tv_nsec = -1};

static void *lock_without_a_time(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_timedlock(&s->mutex, &no_time), 0);
    CHECK_EQ(mr_event_wait(may_unlock, MR_NO_DEADLINE), 0);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void *be_refused_without_a_time(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_trylock(&s->mutex), EBUSY);
    CHECK_EQ(pthread_mutex_timedlock(&s->mutex, &no_time), EINVAL);
    return NULL;
}

/* If the lock is free, its deadline is not checked. */
static void a_recursive_mutex_and_no_time(void)
{
    shared s;
    init(&s, PTHREAD_MUTEX_RECURSIVE);
    CHECK_EQ(mr_event_create(&may_unlock), 0);
    mr_fiber *owner = spawn(lock_without_a_time, &s);
    on_fiber(be_refused_without_a_time, &s); /* on the same carrier, so after it */
    mr_event_set(may_unlock);
    join(owner);
    mr_event_destroy(may_unlock);
}

static void *lock_own_errorcheck(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&s->mutex), EDEADLK);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
#ifndef __SANITIZE_THREAD__ /* which reports it */
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), EPERM);
#endif
    return NULL;
}

static void errors_of_an_error_checking_mutex(void)
{
    shared s;
    init(&s, PTHREAD_MUTEX_ERRORCHECK);
    on_fiber(lock_own_errorcheck, &s);
}

static void *wait_until_1(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    while (s->counter == 0)
        CHECK_EQ(pthread_cond_wait(&s->condition, &s->mutex), 0);
    s->counter--;
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void post(shared *s, bool to_all, unsigned count)
{
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    s->counter += count;
    CHECK_EQ(to_all ? pthread_cond_broadcast(&s->condition) : pthread_cond_signal(&s->condition), 0);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
}

/* Fibers and threads wait for one condition; signals and a broadcast wake the right number of them. */
static void conditions(void)
{
    shared s;
    mr_fiber *fibers[6];
    pthread_t threads[2];
    init(&s, PTHREAD_MUTEX_NORMAL);
    for (int i = 0; i < 6; i++)
        fibers[i] = spawn(wait_until_1, &s);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, wait_until_1, &s), 0);
    let_fibers_park();
    for (int i = 0; i < 3; i++)
        post(&s, false, 1);
    post(&s, true, 5);
    for (int i = 0; i < 6; i++)
        join(fibers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(s.counter, 0);
}

static void *wait_in_vain(void *argument)
{
    shared *s = argument;
    struct timespec until;
    uint64_t begin_ns = mr_clock_now_ns();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += until.tv_nsec >= 1000000000 - PAUSE_MS * 1000000;
    until.tv_nsec = (until.tv_nsec + PAUSE_MS * 1000000) % 1000000000;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    CHECK_EQ(pthread_cond_timedwait(&s->condition, &s->mutex, &until), ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns() - begin_ns, (PAUSE_MS - 1) * NS_PER_MS);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void a_condition_with_a_deadline(void)
{
    shared s;
    init(&s, PTHREAD_MUTEX_NORMAL);
    must_leave_carrier_free(wait_in_vain, &s);
}

static shared *new_shared_between_processes(void)
{
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_condition;
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    pthread_mutexattr_init(&of_mutex);
    pthread_condattr_init(&of_condition);
    CHECK_EQ(pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED), 0);
    CHECK_EQ(pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED), 0);
    CHECK_EQ(pthread_mutex_init(&s->mutex, &of_mutex), 0);
    CHECK_EQ(pthread_cond_init(&s->condition, &of_condition), 0);
    return s;
}

static void answer_in_another_process(shared *s)
{
    usleep(20000);
    pthread_mutex_lock(&s->mutex);
    s->counter = 1;
    pthread_cond_signal(&s->condition);
    while (s->counter != 2)
        pthread_cond_wait(&s->condition, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

static bool has_passed(const struct timespec *moment)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > moment->tv_sec || (now.tv_sec == moment->tv_sec && now.tv_nsec >= moment->tv_nsec);
}

static void *ask_another_process(void *argument)
{
    shared *s = argument;
    struct timespec soon;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    while (s->counter != 1)
        CHECK_EQ(pthread_cond_wait(&s->condition, &s->mutex), 0);
    s->counter = 2;
    CHECK_EQ(pthread_cond_signal(&s->condition), 0);
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec++;
    while (error == 0)
        error = pthread_cond_timedwait(&s->condition, &s->mutex, &soon);
    CHECK_EQ(error, ETIMEDOUT);
    CHECK(has_passed(&soon));
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void a_condition_between_processes(void)
{
    int status;
    shared *s = new_shared_between_processes();
    pid_t child = MUST(fork());
    if (child == 0) {
        answer_in_another_process(s);
        _exit(0);
    }
    on_fiber(ask_another_process, s);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(munmap(s, sizeof *s), 0);
}

const fiber_case pthread_cases[] = {
    CASE(a_normal_mutex),
    CASE(a_recursive_mutex),
    CASE(an_error_checking_mutex),
    CASE(recursion_is_the_fibers),
    CASE(a_recursive_mutex_and_no_time),
    CASE(errors_of_an_error_checking_mutex),
    CASE(conditions),
    CASE(a_condition_with_a_deadline),
    CASE(a_condition_between_processes),
    {0},
};
