/* event.c: set, reset, wait. */
#include "runtime_test.h"

static void *wait_for(void *argument)
{
    return (void *)(intptr_t)mr_event_wait(argument, far_deadline());
}

static void set_wakes_all_and_stays(void)
{
    mr_event *event;
    mr_fiber *fibers[10];
    start_carriers(2);
    CHECK_EQ(mr_event_create(&event), 0);
    for (int i = 0; i < 10; i++)
        fibers[i] = spawn(wait_for, event);
    CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
    mr_event_set(event);
    for (int i = 0; i < 10; i++)
        CHECK_EQ((intptr_t)join(fibers[i]), 0);
    CHECK_EQ(mr_event_wait(event, MR_NO_DEADLINE), 0);
    mr_event_reset(event);
    CHECK_EQ(mr_event_wait(event, in_ms(5)), -ETIMEDOUT);
    mr_event_destroy(event);
}

static void *time_out(void *argument)
{
    uint64_t deadline_ns = in_ms(10);
    CHECK_EQ(mr_event_wait(argument, deadline_ns), -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    CHECK_EQ(mr_event_wait(argument, 1), -ETIMEDOUT); /* long past */
    return NULL;
}

static void deadline_on_a_fiber(void)
{
    mr_event *event;
    CHECK_EQ(mr_event_create(&event), 0);
    on_fiber(time_out, event);
    mr_event_destroy(event);
}

typedef struct ping_pong {
    mr_event *ping, *pong;
    unsigned rounds;
} ping_pong;

static void *play(void *argument)
{
    ping_pong *p = argument;
    for (unsigned i = 0; i < p->rounds; i++) {
        CHECK_EQ(mr_event_wait(p->ping, far_deadline()), 0);
        mr_event_reset(p->ping);
        mr_event_set(p->pong);
    }
    return NULL;
}

/* A fiber and an OS thread wake each other; a lost wake-up would end in the deadline. */
static void between_a_fiber_and_a_thread(void)
{
    ping_pong p = {.rounds = harness_rounds(5000)};
    CHECK_EQ(mr_event_create(&p.ping), 0);
    CHECK_EQ(mr_event_create(&p.pong), 0);
    start_carriers(1);
    mr_fiber *fiber = spawn(play, &p);
    for (unsigned i = 0; i < p.rounds; i++) {
        mr_event_set(p.ping);
        CHECK_EQ(mr_event_wait(p.pong, far_deadline()), 0);
        mr_event_reset(p.pong);
    }
    join(fiber);
    CHECK_EQ(mr_carriers_stop(), 0);
    mr_event_destroy(p.ping);
    mr_event_destroy(p.pong);
}

const fiber_case event_cases[] = {
    CASE(set_wakes_all_and_stays),
    CASE(deadline_on_a_fiber),
    CASE(between_a_fiber_and_a_thread),
    {0},
};
