/* scarcity.c: what a loop does with temporary errors, on a backend that reports the errors that the test chooses. */
#include "../../src/backend.h"
#include "../../src/perform.h"
#include "unit.h"

#include <errno.h>

enum { NEW_DESCRIPTOR = 77, FAILURES = 3 };

/* The errors that are still to come, and how often an operation was attempted. */
static int error_now, failures_left, attempts;

static int fake_create(mr_loop *loop)
{
    (void)loop;
    return 0;
}

static void fake_destroy(mr_loop *loop)
{
    (void)loop;
}

static bool fake_flush(mr_loop *loop)
{
    (void)loop;
    return true;
}

static int64_t fake_attempt(mr_loop *loop, mr_slot *slot)
{
    (void)loop, (void)slot;
    attempts++;
    return failures_left-- > 0 ? -error_now : NEW_DESCRIPTOR;
}

static void fake_submit(mr_loop *loop, mr_slot *slot)
{
    mr_loop_settle(loop, slot, fake_attempt(loop, slot));
}

static void fake_cancel(mr_loop *loop, mr_slot *slot)
{
    mr_loop_settle(loop, slot, -ECANCELED);
}

static const mr_backend_operations fake_backend = {
    .create = fake_create,
    .destroy = fake_destroy,
    .submit = fake_submit,
    .cancel = fake_cancel,
    .attempt = fake_attempt,
    .poll = fake_destroy,
    .flush = fake_flush,
};

typedef struct world {
    mr_group *group;
    mr_loop *loop;
    mr_handle listener;
} world;

static world new_world(int error, int failures)
{
    world w;
    error_now = error;
    failures_left = failures;
    attempts = 0;
    CHECK_EQ(mr_group_create(MR_BACKEND_AUTO, &w.group), 0);
    w.group->backend = &fake_backend;
    CHECK_EQ(mr_loop_create(w.group, &w.loop), 0);
    CHECK_EQ(mr_group_adopt(w.group, 5, &w.listener), 0);
    return w;
}

static void end_world(world *w)
{
    mr_loop_destroy(w->loop);
    mr_group_destroy(w->group);
}

/* Accepts, polling without a pause until the completion has come. */
static mr_completion accept_on(world *w, uint64_t deadline_ns)
{
    mr_request request = {.kind = MR_ACCEPT, .handle = w->listener, .deadline_ns = deadline_ns};
    mr_completion completion;
    CHECK_EQ(mr_loop_submit(w->loop, &request, &completion), MR_PENDING);
    while (mr_loop_poll(w->loop, &completion, 1) == 0)
        NOTE_LINE();
    mr_loop_release(w->loop, completion.token);
    return completion;
}

static void accept_backs_off_and_recovers(uintptr_t error)
{
    world w = new_world((int)error, FAILURES);
    uint64_t begun_ns = mr_clock_now_ns();
    CHECK_EQ(accept_on(&w, MR_NO_DEADLINE).result, NEW_DESCRIPTOR);
    CHECK_EQ(attempts, FAILURES + 1);
    CHECK_GE(mr_clock_now_ns() - begun_ns, (10 + 20 + 40) * UINT64_C(1000000));
    end_world(&w);
}

static void accept_gives_up_at_its_deadline(uintptr_t error)
{
    world w = new_world((int)error, 1000);
    uint64_t deadline_ns = mr_clock_now_ns() + 50 * UINT64_C(1000000);
    CHECK_EQ(accept_on(&w, deadline_ns).result, -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    CHECK_LE(attempts, 4);
    end_world(&w);
}

const harness_test scarcity_tests[] = {
    {"scarcity/accept_recovers_from_EMFILE", accept_backs_off_and_recovers, EMFILE},
    {"scarcity/accept_recovers_from_ENFILE", accept_backs_off_and_recovers, ENFILE},
    {"scarcity/accept_recovers_from_ENOBUFS", accept_backs_off_and_recovers, ENOBUFS},
    {"scarcity/accept_recovers_from_ENOMEM", accept_backs_off_and_recovers, ENOMEM},
    {"scarcity/accept_gives_up_at_its_deadline_under_EMFILE", accept_gives_up_at_its_deadline, EMFILE},
    {"scarcity/accept_gives_up_at_its_deadline_under_ENFILE", accept_gives_up_at_its_deadline, ENFILE},
    {"scarcity/accept_gives_up_at_its_deadline_under_ENOBUFS", accept_gives_up_at_its_deadline, ENOBUFS},
    {0},
};
