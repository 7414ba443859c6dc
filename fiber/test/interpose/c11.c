/* c11.c: C11's threads. */
#include "interpose_test.h"

#include <threads.h>

typedef struct shared {
    mtx_t mutex;
    cnd_t changed;
    int turns;
} shared;

/* Waits while it holds the mutex. */
static void *count_slowly(void *argument)
{
    shared *s = argument;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(mtx_lock(&s->mutex), thrd_success);
        int before = s->turns;
        CHECK_EQ(thrd_sleep(&(struct timespec){.tv_nsec = 2000000}, NULL), 0);
        s->turns = before + 1;
        CHECK_EQ(cnd_broadcast(&s->changed), thrd_success);
        CHECK_EQ(mtx_unlock(&s->mutex), thrd_success);
    }
    return NULL;
}

static void *wait_for_all(void *argument)
{
    shared *s = argument;
    CHECK_EQ(mtx_lock(&s->mutex), thrd_success);
    while (s->turns < 10)
        CHECK_EQ(cnd_wait(&s->changed, &s->mutex), thrd_success);
    CHECK_EQ(mtx_unlock(&s->mutex), thrd_success);
    return NULL;
}

static void mutexes_and_conditions(void)
{
    shared s = {.turns = 0};
    CHECK_EQ(mtx_init(&s.mutex, mtx_timed), thrd_success);
    CHECK_EQ(cnd_init(&s.changed), thrd_success);
    mr_fiber *waiting = spawn(wait_for_all, &s);
    mr_fiber *one = spawn(count_slowly, &s), *other = spawn(count_slowly, &s);
    join(one);
    join(other);
    join(waiting);
    CHECK_EQ(s.turns, 10);
    cnd_destroy(&s.changed);
    mtx_destroy(&s.mutex);
}

static void *be_refused(void *argument)
{
    shared *s = argument;
    struct timespec soon;
    CHECK_EQ(mtx_trylock(&s->mutex), thrd_busy);
    timespec_get(&soon, TIME_UTC);
    CHECK_EQ(mtx_timedlock(&s->mutex, &soon), thrd_timedout);
    return NULL;
}

static void a_mutex_that_is_taken(void)
{
    shared s;
    CHECK_EQ(mtx_init(&s.mutex, mtx_timed), thrd_success);
    CHECK_EQ(mtx_lock(&s.mutex), thrd_success);
    on_fiber(be_refused, &s);
    CHECK_EQ(mtx_unlock(&s.mutex), thrd_success);
    mtx_destroy(&s.mutex);
}

static int end_late(void *argument)
{
    usleep(PAUSE_MS * 1000);
    return *(int *)argument + 1;
}

static void *join_thread(void *argument)
{
    thrd_t thread;
    int given = 4, result = 0;
    CHECK_EQ(thrd_create(&thread, end_late, &given), thrd_success);
    CHECK_EQ(thrd_join(thread, &result), thrd_success);
    CHECK_EQ(result, 5);
    return argument;
}

static void joining_a_thread(void)
{
#ifdef __SANITIZE_THREAD__
    SKIP("TSan does not know thrd_create");
#endif
    must_leave_carrier_free(join_thread, NULL);
}

static once_flag flag = ONCE_FLAG_INIT;
static int initialized;

static void initialize_slowly(void)
{
    usleep(20000);
    initialized++;
}

static void *initialize_once(void *argument)
{
    call_once(&flag, initialize_slowly);
    CHECK_EQ(initialized, 1);
    return argument;
}

static void an_initializer_that_waits(void)
{
    mr_fiber *one = spawn(initialize_once, NULL), *other = spawn(initialize_once, NULL);
    join(one);
    join(other);
}

const fiber_case c11_cases[] = {
    CASE(mutexes_and_conditions),
    CASE(a_mutex_that_is_taken),
    CASE(joining_a_thread),
    CASE(an_initializer_that_waits),
    {0},
};
