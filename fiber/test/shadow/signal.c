/* signal.c: each fiber's own mask of signals, and those that it raises. */
#include "shadow_test.h"

#include <fcntl.h>
#include <signal.h>

#ifdef __SANITIZE_THREAD__
#define SKIP_UNDER_TSAN() SKIP("TSan's runtime has these calls of its own, which come before ours")
#else
#define SKIP_UNDER_TSAN() ((void)0)
#endif

static void *write_without_sigpipe(void *argument)
{
    pair *p = argument;
    sigset_t own, before;
    char block[4096] = {0};
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &own, &before), 0);
    ssize_t written = write(p->ends[1], block, sizeof block);
    int error = written < 0 ? errno : 0;
    mr_fiber_yield();
    if (error == EPIPE)
        CHECK_EQ(sigtimedwait(&own, NULL, &(struct timespec){0}), SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    return (void *)(intptr_t)error;
}

static pair full_pipe(void)
{
    pair p;
    char block[4096] = {0};
    MUST(pipe2(p.ends, O_NONBLOCK));
    while (write(p.ends[1], block, sizeof block) > 0)
        ;
    MUST(fcntl(p.ends[1], F_SETFL, 0));
    return p;
}

static void make_room(pair *p)
{
    char block[8192];
    MUST(read(p->ends[0], block, sizeof block));
}

/* As libraries do that must not end the program: the first fiber's way back must not be the second's. */
static void sigpipe_blocked_by_two_fibers(void)
{
    SKIP_UNDER_TSAN();
    pair one = full_pipe(), other = full_pipe();
    mr_fiber *first = spawn(write_without_sigpipe, &one), *second = spawn(write_without_sigpipe, &other);
    let_fibers_park();
    make_room(&one);
    CHECK_EQ((intptr_t)join(first), 0);
    MUST(close(other.ends[0]));
    CHECK_EQ((intptr_t)join(second), EPIPE);
    MUST(close(other.ends[1]));
    close_pair(&one);
}

static void *tell_mask(void *argument)
{
    sigset_t *mask = argument;
    CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, mask), 0);
    return NULL;
}

static void *block_and_wait(void *argument)
{
    sigset_t own, now;
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &own, NULL), 0);
    usleep(20000);
    tell_mask(&now);
    CHECK(sigismember(&now, SIGPIPE));
    return argument;
}

static void a_mask_is_one_fibers(void)
{
    SKIP_UNDER_TSAN();
    sigset_t mask;
    mr_fiber *fiber = spawn(block_and_wait, NULL);
    on_fiber(tell_mask, &mask);
    CHECK(!sigismember(&mask, SIGPIPE));
    join(fiber);
    on_fiber(tell_mask, &mask);
    CHECK(!sigismember(&mask, SIGPIPE));
}

static void *change_mask_of_carrier(void *argument)
{
    sigset_t urgent, own, now;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &own, NULL), 0);
    mr_fiber *fiber = mr_fiber_enter_thread();
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &urgent, &now), 0);
    CHECK(!sigismember(&now, SIGPIPE));
    mr_fiber_leave_thread(fiber);
    usleep(1000);
    tell_mask(&now);
    CHECK(sigismember(&now, SIGPIPE));
    return argument;
}

/* What is changed between mr_fiber_enter_thread and mr_fiber_leave_thread is not the fiber's. */
static void the_carriers_mask_can_be_changed(void)
{
    SKIP_UNDER_TSAN();
    sigset_t mask;
    on_fiber(change_mask_of_carrier, NULL);
    on_fiber(block_and_wait, NULL);
    on_fiber(tell_mask, &mask);
    CHECK(!sigismember(&mask, SIGURG));
    CHECK(!sigismember(&mask, SIGPIPE));
}

static volatile sig_atomic_t handled;

static void note(int signal_number)
{
    handled = signal_number;
}

static void *raise_and_look(void *argument)
{
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(handled, SIGUSR1);
    return argument;
}

static void what_a_fiber_raises_is_handled(void)
{
    SKIP_UNDER_TSAN();
    CHECK(signal(SIGUSR1, note) != SIG_ERR);
    on_fiber(raise_and_look, NULL);
}

const fiber_case signal_cases[] = {
    CASE(sigpipe_blocked_by_two_fibers),
    CASE(a_mask_is_one_fibers),
    CASE(the_carriers_mask_can_be_changed),
    CASE(what_a_fiber_raises_is_handled),
    {0},
};
