/* sent.c: signals that a fiber keeps while it waits. */
#include "shadow_test.h"

#include <pthread.h>
#include <signal.h>

#ifdef __SANITIZE_THREAD__
#define SKIP_UNDER_TSAN() SKIP("TSan's runtime has these calls of its own, which come before ours")
#else
#define SKIP_UNDER_TSAN() ((void)0)
#endif

static volatile sig_atomic_t handled;

static sigset_t set_of(int signal_number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    return one;
}

static void change(int how, int signal_number)
{
    sigset_t one = set_of(signal_number);
    CHECK_EQ(pthread_sigmask(how, &one, NULL), 0);
}

static void wait_in_handler(int signal_number)
{
    (void)signal_number;
    int error = errno;
    usleep(1000);
    errno = error;
    handled++;
}

static void *keep_a_broken_pipe(void *argument)
{
    const pair *p = argument;
    sigset_t own = set_of(SIGPIPE);
    change(SIG_BLOCK, SIGPIPE);
    change(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(write(p->ends[1], "x", 1), -1);
    CHECK_EQ(errno, EPIPE);
    CHECK_EQ(usleep(20000), 0);
    CHECK_EQ(handled, 1);
    CHECK_EQ(sigtimedwait(&own, NULL, &(struct timespec){0}), SIGPIPE);
    return argument;
}

/* A handler that waits, of a signal that came while the fiber did not run. */
static void a_sigpipe_outlasts_a_handler_that_waits(void)
{
    SKIP_UNDER_TSAN();
    pair p;
    MUST(pipe(p.ends));
    MUST(close(p.ends[0]));
    CHECK_EQ(mr_carriers_stop(), 0);
    change(SIG_BLOCK, SIGUSR1);
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = 1}), 0);
    CHECK(signal(SIGUSR1, wait_in_handler) != SIG_ERR);
    handled = 0;
    mr_fiber *fiber = spawn(keep_a_broken_pipe, &p);
    let_fibers_park();
    MUST(kill(getpid(), SIGUSR1));
    join(fiber);
    MUST(close(p.ends[1]));
}

const fiber_case sent_cases[] = {
    CASE(a_sigpipe_outlasts_a_handler_that_waits),
    {0},
};
