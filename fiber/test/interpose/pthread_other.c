/* pthread_other.c: pthread's barriers, spin locks, once and join; semaphores; loops that try a lock. */
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

enum { PARTIES = 4, BARRIER_ROUNDS = 3 };

typedef struct meeting {
    pthread_barrier_t barrier;
    atomic_uint arrived, serial;
} meeting;

static void *meet(void *argument)
{
    meeting *m = argument;
    for (unsigned i = 1; i <= BARRIER_ROUNDS; i++) {
        atomic_fetch_add(&m->arrived, 1);
        int result = pthread_barrier_wait(&m->barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        CHECK_GE(atomic_load(&m->arrived), PARTIES * i);
        atomic_fetch_add(&m->serial, result == PTHREAD_BARRIER_SERIAL_THREAD);
    }
    return NULL;
}

static void a_barrier_among_fibers_and_threads(void)
{
    meeting m = {.arrived = 0};
    mr_fiber *fibers[PARTIES - 1];
    pthread_t thread;
    CHECK_EQ(pthread_barrier_init(&m.barrier, NULL, PARTIES), 0);
    for (int i = 0; i < PARTIES - 1; i++)
        fibers[i] = spawn(meet, &m);
    CHECK_EQ(pthread_create(&thread, NULL, meet, &m), 0);
    for (int i = 0; i < PARTIES - 1; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(atomic_load(&m.serial), BARRIER_ROUNDS);
    CHECK_EQ(pthread_barrier_destroy(&m.barrier), 0);
}

typedef struct spinning {
    pthread_mutex_t mutex;
    atomic_int is_set;
} spinning;

static void *spin(void *argument)
{
    spinning *s = argument;
    while (!atomic_load(&s->is_set))
        sched_yield();
    while (atomic_load(&s->is_set) == 1)
        thrd_yield();
    while (pthread_mutex_trylock(&s->mutex) != 0)
        ;
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void *end_spinning(void *argument)
{
    spinning *s = argument;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    for (int i = 0; i < 2; i++) {
        usleep(5000);
        atomic_fetch_add(&s->is_set, 1);
    }
    usleep(5000);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

/* Not for what other carriers do alone. */
static void loops_that_let_others_go_first(void)
{
    spinning s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    mr_fiber *other = spawn(end_spinning, &s), *fiber = spawn(spin, &s);
    join(fiber);
    join(other);
}

typedef struct spun {
    pthread_spinlock_t lock;
    unsigned counter, rounds;
} spun;

static void *count_under_spin_lock(void *argument)
{
    spun *s = argument;
    for (unsigned i = 0; i < s->rounds; i++) {
        CHECK_EQ(pthread_spin_lock(&s->lock), 0);
        unsigned before = s->counter;
        if (i % 8 == 0)
            mr_fiber_yield();
        s->counter = before + 1;
        CHECK_EQ(pthread_spin_unlock(&s->lock), 0);
    }
    return NULL;
}

/* If a fiber parks while it holds a spin lock, which no program should do, others wait without blocking their
 * carrier. */
static void spin_locks(void)
{
    spun s = {.rounds = harness_rounds(400)};
    mr_fiber *fibers[4];
    pthread_t thread;
    CHECK_EQ(pthread_spin_init(&s.lock, PTHREAD_PROCESS_PRIVATE), 0);
    for (int i = 0; i < 4; i++)
        fibers[i] = spawn(count_under_spin_lock, &s);
    CHECK_EQ(pthread_create(&thread, NULL, count_under_spin_lock, &s), 0);
    for (int i = 0; i < 4; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(s.counter, 5 * s.rounds);
    CHECK_EQ(pthread_spin_destroy(&s.lock), 0);
}

static void *wait_semaphore(void *argument)
{
    CHECK_EQ(sem_wait(argument), 0);
    return NULL;
}

static void *post_semaphore(void *argument)
{
    CHECK_EQ(sem_post(argument), 0);
    return NULL;
}

static void semaphores(void)
{
    sem_t semaphore;
    mr_fiber *fibers[10];
    pthread_t thread;
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    for (int i = 0; i < 10; i++)
        fibers[i] = spawn(wait_semaphore, &semaphore);
    let_fibers_park();
    for (int i = 0; i < 5; i++)
        CHECK_EQ(sem_post(&semaphore), 0);
    CHECK_EQ(pthread_create(&thread, NULL, post_semaphore, &semaphore), 0);
    for (int i = 0; i < 4; i++)
        on_fiber(post_semaphore, &semaphore);
    for (int i = 0; i < 10; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    sem_destroy(&semaphore);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int initialized;

static void initialize_slowly(void)
{
    usleep(20000);
    atomic_fetch_add(&initialized, 1);
}

static void *initialize(void *argument)
{
    CHECK_EQ(pthread_once(&once, initialize_slowly), 0);
    CHECK_EQ(atomic_load(&initialized), 1);
    return argument;
}

/* The initializer parks; the second fiber would block the carrier that the first needs to go on. */
static void once_with_an_initializer_that_parks(void)
{
    mr_fiber *fibers[5];
    for (int i = 0; i < 5; i++)
        fibers[i] = spawn(initialize, NULL);
    for (int i = 0; i < 5; i++)
        join(fibers[i]);
}

static void *join_own_thread(void *argument)
{
    CHECK_EQ(pthread_join(pthread_self(), NULL), EDEADLK);
    return argument;
}

static void joining_the_carrier(void)
{
    on_fiber(join_own_thread, NULL);
}

static void *sleep_on_thread(void *argument)
{
    usleep(PAUSE_MS * 1000);
    return argument;
}

static void *join_a_thread(void *argument)
{
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, sleep_on_thread, argument), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == argument);
    return NULL;
}

static void joining_a_thread(void)
{
    must_leave_carrier_free(join_a_thread, &once);
}

static sem_t alarms;
static volatile sig_atomic_t handled;

static void post_from_handler(int signal_number)
{
    (void)signal_number;
    handled++;
    sem_post(&alarms);
}

static void *take_alarms(void *argument)
{
    for (int i = 0; i < *(int *)argument; i++)
        CHECK_EQ(sem_wait(&alarms), 0);
    return NULL;
}

/* A thread that wakes fibers is interrupted by a handler that wakes fibers. */
static void posting_from_a_signal_handler(void)
{
    int posts = (int)harness_rounds(100000);
    CHECK_EQ(sem_init(&alarms, 0, 0), 0);
    mr_fiber *fiber = spawn(take_alarms, &posts);
    CHECK(signal(SIGALRM, post_from_handler) != SIG_ERR);
    MUST(setitimer(ITIMER_REAL, &(struct itimerval){{0, 50}, {0, 50}}, NULL));
    for (int i = 0; i < posts; i++)
        MUST(sem_post(&alarms));
    MUST(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL));
    join(fiber);
    CHECK_GT(handled, 0);
}

const fiber_case pthread_other_cases[] = {
    CASE(a_barrier_among_fibers_and_threads),
    CASE(loops_that_let_others_go_first),
    CASE(spin_locks),
    CASE(semaphores),
    CASE(once_with_an_initializer_that_parks),
    CASE(joining_the_carrier),
    CASE(joining_a_thread),
    CASE(posting_from_a_signal_handler),
    {0},
};
