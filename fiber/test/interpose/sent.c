/* sent.c: signals that a fiber sends to itself, and those that stay pending while it waits. */
#include "interpose_test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

#ifdef __SANITIZE_THREAD__
#define SKIP_UNDER_TSAN() SKIP("TSan's runtime interposes these calls before we do")
#else
#define SKIP_UNDER_TSAN() ((void)0)
#endif

enum { VALUES = 8 };

static volatile sig_atomic_t handled;
static siginfo_t last;
static int values[VALUES];

static void note(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    CHECK_EQ(signal_number, info->si_signo);
    values[handled % VALUES] = info->si_value.sival_int;
    last = *info;
    handled++;
}

static void handle(int signal_number)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    MUST(sigaction(signal_number, &action, NULL));
}

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

static bool is_pending(int signal_number)
{
    sigset_t pending;
    MUST(sigpending(&pending));
    return sigismember(&pending, signal_number);
}

/* ----------------------------------------------------------------------------------------------------- the ways --- */

typedef struct way {
    int (*send)(int signal_number); /* 0 or an errno */
    int code;                       /* si_code */
    int value;
} way;

static int error_of(long result)
{
    return result < 0 ? errno : 0;
}

static int by_raise(int signal_number)
{
    return error_of(raise(signal_number));
}

static int by_pthread_kill(int signal_number)
{
    return pthread_kill(pthread_self(), signal_number);
}

static int by_pthread_sigqueue(int signal_number)
{
    return pthread_sigqueue(pthread_self(), signal_number, (union sigval){.sival_int = 42});
}

static int by_tgkill(int signal_number)
{
    return error_of(tgkill(getpid(), gettid(), signal_number));
}

static int by_number_of_tgkill(int signal_number)
{
    return error_of(syscall(SYS_tgkill, getpid(), gettid(), signal_number));
}

static int by_number_of_tkill(int signal_number)
{
    return error_of(syscall(SYS_tkill, gettid(), signal_number));
}

static int by_number_of_sigqueue(int signal_number)
{
    siginfo_t info = {.si_signo = signal_number, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_value.sival_int = 43;
    return error_of(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal_number, &info));
}

static const way ways[] = {
    {by_raise, SI_TKILL, 0},
    {by_pthread_kill, SI_TKILL, 0},
    {by_pthread_sigqueue, SI_QUEUE, 42},
    {by_tgkill, SI_TKILL, 0},
    {by_number_of_tgkill, SI_TKILL, 0},
    {by_number_of_tkill, SI_TKILL, 0},
    {by_number_of_sigqueue, SI_QUEUE, 43},
};

static void must_be_of(const siginfo_t *info, const way *w)
{
    CHECK_EQ(info->si_code, w->code);
    CHECK_EQ(info->si_pid, getpid());
    if (w->code == SI_QUEUE) /* Linux clears the value of signals without one; QEMU does not */
        CHECK_EQ(info->si_value.sival_int, w->value);
}

static void *send_what_is_let_in(void *argument)
{
    const way *w = argument;
    handled = 0;
    CHECK_EQ(w->send(SIGUSR1), 0);
    CHECK_EQ(handled, 1);
    must_be_of(&last, w);
    CHECK_EQ(w->send(0), 0);
    CHECK_EQ(w->send(1000), EINVAL);
    return NULL;
}

static void *send_what_is_blocked(void *argument)
{
    const way *w = argument;
    siginfo_t info;
    sigset_t one = set_of(SIGUSR1);
    handled = 0;
    change(SIG_BLOCK, SIGUSR1);
    CHECK_EQ(w->send(SIGUSR1), 0);
    CHECK(is_pending(SIGUSR1));
    mr_fiber_yield();
    CHECK(is_pending(SIGUSR1));
    CHECK_EQ(sigwaitinfo(&one, &info), SIGUSR1);
    if (info.si_code == SI_USER)
        info.si_code = SI_TKILL; /* libc does not tell them apart there */
    must_be_of(&info, w);
    CHECK(!is_pending(SIGUSR1));
    CHECK_EQ(w->send(SIGUSR1), 0);
    CHECK_EQ(usleep(1000), 0);
    CHECK_EQ(handled, 0);
    change(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(handled, 1);
    must_be_of(&last, w);
    CHECK(!is_pending(SIGUSR1));
    return NULL;
}

static void every_way_to_send_to_oneself(void)
{
    SKIP_UNDER_TSAN();
    handle(SIGUSR1);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        on_fiber(send_what_is_let_in, (void *)&ways[i]);
        on_fiber(send_what_is_blocked, (void *)&ways[i]);
    }
}

static void *send_several(void *argument)
{
    handled = 0;
    change(SIG_BLOCK, SIGRTMIN + 3);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(pthread_sigqueue(pthread_self(), SIGRTMIN + 3, (union sigval){.sival_int = i}), 0);
        mr_fiber_yield();
    }
    change(SIG_UNBLOCK, SIGRTMIN + 3);
    CHECK_EQ(handled, 5);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(values[i], i);
    return argument;
}

static void what_was_queued_comes_in_order(void)
{
    SKIP_UNDER_TSAN();
    handle(SIGRTMIN + 3);
    on_fiber(send_several, NULL);
}

/* --------------------------------------------------------------------------------- while the fiber does not run --- */

static atomic_bool others_have_looked;

static void *raise_and_let_in_later(void *argument)
{
    change(SIG_BLOCK, SIGUSR1);
    CHECK_EQ(raise(SIGUSR1), 0);
    while (!atomic_load(&others_have_looked))
        CHECK_EQ(usleep(1000), 0);
    CHECK(is_pending(SIGUSR1));
    CHECK_EQ(handled, 0);
    change(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(handled, 1);
    return argument;
}

static void *look_for_the_others(void *argument)
{
    sigset_t one = set_of(SIGUSR1);
    change(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(handled, 0);
    change(SIG_BLOCK, SIGUSR1);
    CHECK(!is_pending(SIGUSR1));
    CHECK_EQ(sigtimedwait(&one, NULL, &(struct timespec){0}), -1);
    CHECK_EQ(errno, EAGAIN);
    atomic_store(&others_have_looked, true);
    return argument;
}

static void what_a_fiber_sent_is_not_anothers(void)
{
    SKIP_UNDER_TSAN();
    handle(SIGUSR1);
    handled = 0;
    mr_fiber *fiber = spawn(raise_and_let_in_later, NULL);
    on_fiber(look_for_the_others, NULL);
    join(fiber);
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
    while (handled < 1)
        CHECK_EQ(usleep(20000), 0);
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
    CASE(every_way_to_send_to_oneself),
    CASE(what_was_queued_comes_in_order),
    CASE(what_a_fiber_sent_is_not_anothers),
    CASE(a_sigpipe_outlasts_a_handler_that_waits),
    {0},
};
