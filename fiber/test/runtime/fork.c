/* fork.c: the child of a process that has fibers. */
#include "runtime_test.h"

#include <sys/wait.h>
#include <unistd.h>

static void *nothing(void *argument)
{
    return argument;
}

static void *sleep_briefly(void *argument)
{
    CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
    return argument;
}

/* A carrier that starts or works allocates, and ASan's allocator, unlike libc's, is locked for ever in a child that was
 * forked meanwhile. So all carriers wait for something when a test forks. */
static void let_carriers_rest(void)
{
    usleep(100000);
}

static void *sleep_longer(void *argument)
{
    CHECK_EQ(mr_fiber_sleep(400 * NS_PER_MS), 0);
    return argument;
}

static void must_exit_with(pid_t child, int expected)
{
    int status;
    MUST(waitpid(child, &status, 0));
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), expected);
}

static void a_child_can_start_anew(void)
{
#ifdef __SANITIZE_THREAD__
    SKIP("TSan cannot start threads after the fork of a process with several");
#endif
    start_carriers(2);
    mr_fiber *fibers[20];
    for (int i = 0; i < 20; i++)
        fibers[i] = spawn(sleep_longer, (void *)(intptr_t)i);
    let_carriers_rest();
    pid_t child = MUST(fork());
    if (child == 0) {
        CHECK_EQ(mr_carriers_count(), 0);
        for (intptr_t i = 0; i < 20; i++)
            CHECK_EQ((intptr_t)on_fiber(sleep_briefly, (void *)i), i);
        _exit(31);
    }
    for (int i = 0; i < 20; i++)
        CHECK_EQ((intptr_t)join(fibers[i]), i);
    must_exit_with(child, 31);
    CHECK_EQ((intptr_t)on_fiber(nothing, (void *)5), 5);
}

/* In the child: there are no fibers any more, waits are those of an OS thread. */
static void end_as_a_thread(void)
{
    CHECK(mr_fiber_self() == NULL);
    CHECK_EQ(mr_fiber_sleep(NS_PER_MS), 0);
    _exit(0);
}

static void *fork_here(void *argument)
{
    pid_t child = fork();
    if (child == 0) {
        CHECK(mr_fiber_self() == NULL);
        CHECK_EQ(mr_fiber_sleep(NS_PER_MS), 0); /* as an OS thread */
        *(volatile int *)argument = 1;
        return NULL; /* the end of the process */
    }
    must_exit_with(child, 0);
    CHECK(mr_fiber_self() != NULL);
    mr_fiber_yield();
    return NULL;
}

static void a_fiber_can_fork(void)
{
    int untouched = 0;
    start_carriers(2);
    let_carriers_rest();
    on_fiber(fork_here, &untouched);
    CHECK_EQ(untouched, 0);
}

/* As the run-time system of another language may do. */
static void *fork_as_a_thread(void *argument)
{
    mr_fiber *self = mr_fiber_enter_thread();
    pid_t child = fork();
    mr_fiber_leave_thread(self);
    if (child == 0)
        end_as_a_thread();
    CHECK(mr_fiber_self() == self);
    must_exit_with(child, 0);
    return argument;
}

static void a_fiber_can_fork_while_it_is_a_thread(void)
{
    start_carriers(1);
    let_carriers_rest();
    on_fiber(fork_as_a_thread, NULL);
}

static void *fork_without_handlers(void *argument)
{
    const mr_fiber *self = mr_fiber_self();
    pid_t child = MUST(_Fork());
    if (child == 0)
        end_as_a_thread();
    CHECK(mr_fiber_self() == self);
    must_exit_with(child, 0);
    return argument;
}

/* The child would wait for carriers that it does not have. */
static void a_fiber_can_fork_without_handlers(void)
{
    start_carriers(1);
    let_carriers_rest();
    on_fiber(fork_without_handlers, NULL);
}

const fiber_case fork_cases[] = {
    CASE(a_child_can_start_anew),
    CASE(a_fiber_can_fork),
    CASE(a_fiber_can_fork_while_it_is_a_thread),
    CASE(a_fiber_can_fork_without_handlers),
    {0},
};
