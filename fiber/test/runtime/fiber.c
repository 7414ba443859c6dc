/* fiber.c: spawn, join, detach, yield, sleep, errno. */
#include "runtime_test.h"

#include <pthread.h>

static void *nothing(void *argument)
{
    return argument;
}

static void *join_another(void *argument)
{
    return on_fiber(nothing, argument);
}

static void join_takes_the_result(void)
{
    start_carriers(2);
    CHECK_EQ((intptr_t)on_fiber(nothing, (void *)1), 1);
    for (unsigned i = 0; i < harness_rounds(500); i++)
        CHECK_EQ((intptr_t)on_fiber(join_another, (void *)2), 2);
    CHECK_EQ(mr_carriers_stop(), 0);
}

static void *join_self(void *argument)
{
    mr_fiber **self = argument;
    while (!*self)
        mr_fiber_yield();
    CHECK_EQ(mr_fiber_join(*self, NULL), -EDEADLK);
    return NULL;
}

static void join_of_oneself(void)
{
    mr_fiber *volatile fiber = NULL;
    start_carriers(1);
    CHECK_EQ(mr_fiber_spawn((mr_fiber **)&fiber, NULL, join_self, (void *)&fiber), 0);
    join(fiber);
}

static void *check_self(void *argument)
{
    CHECK(mr_fiber_self() != NULL);
    CHECK_EQ(strcmp(mr_fiber_name(mr_fiber_self()), argument), 0);
    return NULL;
}

static void names(void)
{
    mr_fiber *fiber;
    CHECK(mr_fiber_self() == NULL);
    on_fiber(check_self, "fiber");
    CHECK_EQ(mr_fiber_spawn(&fiber, &(mr_fiber_options){.name = "download"}, check_self, "download"), 0);
    join(fiber);
    const char *longer = "a name that is longer than what is kept of it";
    char kept[MR_FIBER_NAME_BYTES] = {0};
    memcpy(kept, longer, sizeof kept - 1);
    CHECK_EQ(mr_fiber_spawn(&fiber, &(mr_fiber_options){.name = longer}, check_self, kept), 0);
    join(fiber);
}

/* Until it is joined or detached. */
static void what_is_known_of_a_fiber_that_has_ended(void)
{
    start_carriers(2);
    mr_fiber *fiber = spawn(nothing, NULL);
    unsigned carrier = mr_fiber_carrier(fiber);
    CHECK_LT(carrier, 2);
    CHECK_EQ(mr_carriers_stop(), 0);
    CHECK_EQ(mr_fiber_carrier(fiber), carrier);
    CHECK_EQ(strcmp(mr_fiber_name(fiber), "fiber"), 0);
    mr_fiber_detach(fiber);
}

static void *check_argument(void *argument)
{
    CHECK(mr_fiber_argument(mr_fiber_self(), check_argument) == argument);
    CHECK(mr_fiber_argument(mr_fiber_self(), nothing) == NULL);
    return NULL;
}

static void arguments(void)
{
    on_fiber(check_argument, (void *)1);
}

static void *note_run(void *argument)
{
    atomic_store((atomic_bool *)argument, true);
    return NULL;
}

/* In thread mode it cannot park: the other fiber of its carrier has not run when usleep returns. */
static void *sleep_as_thread(void *argument)
{
    atomic_bool *other_has_run = argument;
    mr_fiber *other = spawn(note_run, other_has_run);
    mr_fiber *self = mr_fiber_enter_thread();
    CHECK(self != NULL);
    CHECK(mr_fiber_self() == NULL);
    mr_fiber *nested = mr_fiber_enter_thread();
    CHECK(nested == NULL);
    CHECK_EQ(usleep(5000), 0);
    mr_fiber_leave_thread(nested);
    CHECK(mr_fiber_self() == NULL);
    CHECK(!atomic_load(other_has_run));
    mr_fiber_leave_thread(self);
    CHECK(mr_fiber_self() == self);
    CHECK_EQ(usleep(5000), 0);
    CHECK(atomic_load(other_has_run));
    join(other);
    return NULL;
}

static void as_a_thread(void)
{
    atomic_bool other_has_run = false;
    start_carriers(1);
    on_fiber(sleep_as_thread, &other_has_run);
    CHECK(mr_fiber_enter_thread() == NULL);
    mr_fiber_leave_thread(NULL);
}

static void *count_alive(void *argument)
{
    atomic_fetch_add((atomic_uint *)argument, 1);
    return NULL;
}

static void detached_fibers_run(void)
{
    atomic_uint count = 0;
    start_carriers(2);
    for (int i = 0; i < 50; i++) {
        mr_fiber *fiber = spawn(count_alive, &count);
        mr_fiber_detach(fiber);
        CHECK_EQ(mr_fiber_spawn(NULL, NULL, count_alive, &count), 0);
    }
    CHECK_EQ(mr_carriers_stop(), 0);
    CHECK_EQ(atomic_load(&count), 100);
}

/* ------------------------------------------------------------------------------------------------------- yield --- */

static char order[16];
static int order_length;

static void *write_order(void *argument)
{
    for (int i = 0; i < 3; i++) {
        order[order_length++] = *(const char *)argument;
        mr_fiber_yield();
    }
    return NULL;
}

static void *run_two(void *argument)
{
    (void)argument;
    mr_fiber *a = spawn(write_order, "a"), *b = spawn(write_order, "b");
    join(a);
    join(b);
    return NULL;
}

static void yield_takes_turns(void)
{
    start_carriers(1);
    on_fiber(run_two, NULL);
    CHECK_EQ(strcmp(order, "ababab"), 0);
}

static atomic_bool enough;

static void *yield_until_enough(void *argument)
{
    (void)argument;
    while (!atomic_load(&enough))
        mr_fiber_yield();
    return NULL;
}

static void *sleep_then_enough(void *argument)
{
    (void)argument;
    CHECK_EQ(mr_fiber_sleep(5 * NS_PER_MS), 0);
    atomic_store(&enough, true);
    return NULL;
}

/* A carrier that always has a fiber to run must still handle timers and messages. */
static void fibers_that_yield_do_not_starve_the_loop(void)
{
    start_carriers(1);
    mr_fiber *busy = spawn(yield_until_enough, NULL);
    mr_fiber *sleeper = spawn(sleep_then_enough, NULL);
    join(busy);
    join(sleeper);
}

/* -------------------------------------------------------------------------------------------------------- sleep --- */

static void *sleep_a_while(void *argument)
{
    uint64_t start_ns = mr_clock_now_ns();
    CHECK_EQ(mr_fiber_sleep((uint64_t)(uintptr_t)argument * NS_PER_MS), 0);
    CHECK_GE(mr_clock_now_ns() - start_ns, (uint64_t)(uintptr_t)argument * NS_PER_MS);
    return NULL;
}

static void thousands_sleep_at_once(void)
{
    unsigned count = harness_rounds(5000);
    mr_fiber **fibers = calloc(count, sizeof *fibers);
    uint64_t start_ns = mr_clock_now_ns();
    start_carriers(2);
    for (unsigned i = 0; i < count; i++)
        fibers[i] = spawn(sleep_a_while, (void *)100);
    for (unsigned i = 0; i < count; i++)
        join(fibers[i]);
    CHECK_LT(mr_clock_now_ns() - start_ns, 10000 * NS_PER_MS); /* one after the other: 500 s, or 50 s in TSan's build */
    free(fibers);
    CHECK_EQ(mr_carriers_stop(), 0);
}

static void threads_sleep_too(void)
{
    uint64_t start_ns = mr_clock_now_ns();
    CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
    CHECK_GE(mr_clock_now_ns() - start_ns, 10 * NS_PER_MS);
    CHECK_EQ(mr_carriers_count(), 0);
}

/* -------------------------------------------------------------------------------------------------------- errno --- */

static void *keep_errno(void *argument)
{
    int own = (int)(intptr_t)argument;
    CHECK_EQ(errno, 0);
    errno = own;
    for (int i = 0; i < 20; i++) {
        mr_fiber_yield();
        CHECK_EQ(errno, own);
        if (i % 5 == 0)
            CHECK_EQ(mr_fiber_sleep(NS_PER_MS), 0);
        CHECK_EQ(errno, own);
    }
    return NULL;
}

static void errno_is_the_fibers_own(void)
{
    mr_fiber *fibers[50];
    start_carriers(2);
    errno = 77;
    for (int i = 0; i < 50; i++)
        fibers[i] = spawn(keep_errno, (void *)(intptr_t)(i + 1));
    CHECK_EQ(errno, 77);
    for (int i = 0; i < 50; i++)
        join(fibers[i]);
}

/* ------------------------------------------------------------------------------------------------------- pinned --- */

static void *stay_on_thread(void *argument)
{
    static __thread int own;
    int *address = &own;
    pthread_t thread = pthread_self();
    for (int i = 0; i < 50; i++) {
        if (i % 10)
            mr_fiber_yield();
        else
            CHECK_EQ(mr_fiber_sleep(NS_PER_MS), 0);
        CHECK(pthread_equal(thread, pthread_self()));
        CHECK(address == &own);
    }
    return argument;
}

static void a_fiber_stays_on_its_carrier(void)
{
    mr_fiber *fibers[40];
    start_carriers(4);
    for (int i = 0; i < 40; i++)
        fibers[i] = spawn(stay_on_thread, NULL);
    for (int i = 0; i < 40; i++)
        join(fibers[i]);
}

/* Joined from the main thread while the fibers end at random times on several carriers. */
static void spawn_and_join_under_load(void)
{
    unsigned rounds = harness_rounds(20000);
    mr_fiber *fibers[64];
    start_carriers(3);
    for (unsigned i = 0; i < rounds; i++) {
        if (i >= 64)
            CHECK_EQ((uintptr_t)join(fibers[i % 64]), i - 64);
        fibers[i % 64] = spawn(i % 3 ? nothing : join_another, (void *)(uintptr_t)i);
    }
    for (unsigned i = rounds; i < rounds + 64; i++)
        if (i >= 64)
            join(fibers[i % 64]);
    CHECK_EQ(mr_carriers_stop(), 0);
}

const fiber_case fiber_cases[] = {
    CASE(join_takes_the_result),
    CASE(join_of_oneself),
    CASE(names),
    CASE(what_is_known_of_a_fiber_that_has_ended),
    CASE(arguments),
    CASE(as_a_thread),
    CASE(detached_fibers_run),
    CASE(yield_takes_turns),
    CASE(fibers_that_yield_do_not_starve_the_loop),
    CASE(thousands_sleep_at_once),
    CASE(threads_sleep_too),
    CASE(errno_is_the_fibers_own),
    CASE(a_fiber_stays_on_its_carrier),
    CASE(spawn_and_join_under_load),
    {0},
};
