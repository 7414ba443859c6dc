/* masked.c: waits with a signal mask argument: ppoll, pselect, epoll_pwait. */
#include "interpose_test.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

#ifdef __SANITIZE_THREAD__
#define SKIP_UNDER_TSAN() SKIP("TSan's runtime interposes these calls before we do")
#else
#define SKIP_UNDER_TSAN() ((void)0)
#endif

enum { FOR_EVER = -1, MANY = 40 };

static atomic_int handled;

static bool is_blocked(int signal_number)
{
    sigset_t now;
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
    return sigismember(&now, signal_number);
}

static bool is_pending(int signal_number)
{
    sigset_t pending;
    MUST(sigpending(&pending));
    return sigismember(&pending, signal_number);
}

/* During the handler, the signals of the wait's mask and those of the handler are blocked. */
static void note(int signal_number)
{
    CHECK(is_blocked(signal_number));
    CHECK(!is_blocked(signal_number == SIGUSR1 ? SIGUSR2 : SIGUSR1));
    atomic_fetch_add(&handled, 1);
}

static void handle(int signal_number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}; /* which does not concern these waits */
    sigemptyset(&action.sa_mask);
    MUST(sigaction(signal_number, &action, NULL));
}

static void change(int how, int signal_number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    CHECK_EQ(pthread_sigmask(how, &one, NULL), 0);
}

/* All threads of the program block it, except Millrace's. */
static void start_a_carrier_that_blocks_both(void)
{
    CHECK_EQ(mr_carriers_stop(), 0);
    change(SIG_BLOCK, SIGUSR1);
    change(SIG_BLOCK, SIGUSR2);
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = 1}), 0);
    atomic_store(&handled, 0);
}

/* ---------------------------------------------------------------------------------------------------- the calls --- */

typedef int masked_call(int descriptor, int timeout_ms, const sigset_t *mask);

static struct timespec *time_of(int timeout_ms, struct timespec *storage)
{
    *storage = (struct timespec){.tv_nsec = timeout_ms * 1000000L};
    return timeout_ms == FOR_EVER ? NULL : storage;
}

static int by_ppoll(int descriptor, int timeout_ms, const sigset_t *mask)
{
    struct timespec storage;
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    return ppoll(&entry, 1, time_of(timeout_ms, &storage), mask);
}

static int by_ppoll_of_many(int descriptor, int timeout_ms, const sigset_t *mask)
{
    struct timespec storage;
    struct pollfd entries[MANY];
    for (int i = 0; i < MANY; i++)
        entries[i] = (struct pollfd){.fd = descriptor, .events = i ? POLLPRI : POLLIN};
    return ppoll(entries, MANY, time_of(timeout_ms, &storage), mask);
}

static int by_ppoll_or_sleep(int descriptor, int timeout_ms, const sigset_t *mask)
{
    struct timespec storage;
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    bool is_ready = poll(&entry, 1, 0) > 0;
    return ppoll(&entry, is_ready, time_of(timeout_ms, &storage), mask);
}

static int by_pselect(int descriptor, int timeout_ms, const sigset_t *mask)
{
    struct timespec storage;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(descriptor, &set);
    int result = pselect(descriptor + 1, &set, NULL, NULL, time_of(timeout_ms, &storage), mask);
    CHECK_EQ(!!FD_ISSET(descriptor, &set), result != 0); /* an error leaves the sets as they are */
    return result;
}

static int of_epoll(int descriptor, int timeout_ms, const sigset_t *mask, bool is_newer)
{
    struct timespec storage;
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event));
    int result = is_newer ? epoll_pwait2(set, &event, 1, time_of(timeout_ms, &storage), mask)
                          : epoll_pwait(set, &event, 1, timeout_ms, mask);
    int error = errno;
    MUST(close(set));
    errno = error;
    return result;
}

static int by_epoll_pwait(int descriptor, int timeout_ms, const sigset_t *mask)
{
    return of_epoll(descriptor, timeout_ms, mask, false);
}

static int by_epoll_pwait2(int descriptor, int timeout_ms, const sigset_t *mask)
{
    return of_epoll(descriptor, timeout_ms, mask, true);
}

static masked_call *const calls[] = {by_ppoll,   by_ppoll_of_many, by_ppoll_or_sleep,
                                     by_pselect, by_epoll_pwait,   by_epoll_pwait2};

/* One call's case: what it waits for, and the thread that makes it happen. */
typedef struct trial {
    masked_call *wait;
    pair pair;
    pthread_t thread;
} trial;

static void for_every_call(void (*run)(trial *t))
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        trial t = {.wait = calls[i], .pair = new_pair()};
        atomic_store(&handled, 0);
        run(&t);
        close_pair(&t.pair);
    }
}

static int wait_with(const trial *t, int timeout_ms, int blocked)
{
    sigset_t mask;
    sigemptyset(&mask);
    if (blocked)
        sigaddset(&mask, blocked);
    return t->wait(t->pair.ends[0], timeout_ms, &mask);
}

static void must_be_interrupted(const trial *t, int timeout_ms)
{
    errno = 0;
    CHECK_EQ(wait_with(t, timeout_ms, 0), -1);
    CHECK_EQ(errno, EINTR);
    CHECK(is_blocked(SIGUSR1));
}

/* --------------------------------------------------------------------------------------------- what ends a wait --- */

static void *wait_for_signal(void *argument)
{
    must_be_interrupted(argument, FOR_EVER);
    CHECK_EQ(atomic_load(&handled), 1);
    CHECK(is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
    return NULL;
}

static void send_to_process(trial *t)
{
    mr_fiber *fiber = spawn(wait_for_signal, t);
    let_fibers_park();
    CHECK_EQ(atomic_load(&handled), 0);
    MUST(kill(getpid(), SIGUSR1));
    join(fiber);
}

static void what_the_mask_lets_in_ends_the_wait(void)
{
    SKIP_UNDER_TSAN();
    start_a_carrier_that_blocks_both();
    handle(SIGUSR1, note);
    for_every_call(send_to_process);
}

static void *block_and_wait_for_signal(void *argument)
{
    trial *t = argument;
    change(SIG_BLOCK, SIGUSR1);
    t->thread = pthread_self();
    must_be_interrupted(t, FOR_EVER);
    CHECK_EQ(atomic_load(&handled), 1);
    return NULL;
}

static void send_to_thread(trial *t)
{
    mr_fiber *fiber = spawn(block_and_wait_for_signal, t);
    let_fibers_park();
    CHECK_EQ(pthread_kill(t->thread, SIGUSR1), 0);
    join(fiber);
}

/* Only this fiber unblocks it. */
static void what_the_fiber_has_blocked_ends_the_wait(void)
{
    SKIP_UNDER_TSAN();
    handle(SIGUSR1, note);
    for_every_call(send_to_thread);
}

static void *wait_for_what_is_pending(void *argument)
{
    const trial *t = argument;
    change(SIG_BLOCK, SIGUSR1);
    for (int i = 1; i < 3; i++) {
        CHECK_EQ(raise(SIGUSR1), 0);
        CHECK_EQ(atomic_load(&handled), i - 1);
        must_be_interrupted(t, FOR_EVER);
        CHECK_EQ(atomic_load(&handled), i);
        CHECK(!is_pending(SIGUSR1));
    }
    return NULL;
}

static void *wait_for_what_is_queued(void *argument)
{
    const trial *t = argument;
    change(SIG_BLOCK, SIGRTMIN + 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(raise(SIGRTMIN + 3), 0);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(wait_with(t, FOR_EVER, 0), -1);
        CHECK_EQ(errno, EINTR);
        CHECK_EQ(atomic_load(&handled), i);
        CHECK_EQ(is_pending(SIGRTMIN + 3), i < 3);
        CHECK_EQ(usleep(1000), 0);
    }
    return NULL;
}

static void raise_several_first(trial *t)
{
    on_fiber(wait_for_what_is_queued, t);
}

/* One wait, one signal of a kind. */
static void each_of_several_that_are_queued_ends_a_wait(void)
{
    SKIP_UNDER_TSAN();
    handle(SIGRTMIN + 3, note);
    for_every_call(raise_several_first);
}

static void raise_first(trial *t)
{
    on_fiber(wait_for_what_is_pending, t);
}

static void what_is_pending_ends_the_wait_at_once(void)
{
    SKIP_UNDER_TSAN();
    handle(SIGUSR1, note);
    for_every_call(raise_first);
}

/* A signal that does not end the wait comes while the fiber waits for a byte, which then comes. */
static void send_before_byte(trial *t, void *(*run)(void *))
{
    if (t->wait == by_ppoll_or_sleep)
        return;
    mr_fiber *fiber = spawn(run, t);
    let_fibers_park();
    MUST(kill(getpid(), SIGUSR1));
    let_fibers_park();
    CHECK_EQ(atomic_load(&handled), 0);
    MUST(write(t->pair.ends[1], "x", 1));
    join(fiber);
}

static void *let_in_and_wait_without(void *argument)
{
    change(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(wait_with(argument, FOR_EVER, SIGUSR1), 1);
    CHECK_EQ(atomic_load(&handled), 1); /* when the mask was restored */
    return NULL;
}

static void send_what_is_blocked(trial *t)
{
    send_before_byte(t, let_in_and_wait_without);
}

static void count(int signal_number)
{
    CHECK_EQ(signal_number, SIGUSR1);
    atomic_fetch_add(&handled, 1);
}

static void what_the_mask_blocks_does_not_end_the_wait(void)
{
    SKIP_UNDER_TSAN();
    start_a_carrier_that_blocks_both();
    handle(SIGUSR1, count);
    for_every_call(send_what_is_blocked);
}

static bool is_of_epoll(const trial *t)
{
    return t->wait == by_epoll_pwait || t->wait == by_epoll_pwait2;
}

static void *wait_while_ignoring(void *argument)
{
    errno = EDOM;
    if (is_of_epoll(argument))
        must_be_interrupted(argument, FOR_EVER); /* so it is on Linux */
    else
        CHECK_EQ(wait_with(argument, FOR_EVER, 0), 1);
    CHECK_EQ(errno, is_of_epoll(argument) ? EINTR : EDOM);
    CHECK(!is_pending(SIGUSR1));
    return NULL;
}

static void send_what_is_ignored(trial *t)
{
    send_before_byte(t, wait_while_ignoring);
}

static void what_is_ignored_ends_no_wait_but_of_epoll(void)
{
    SKIP_UNDER_TSAN();
    start_a_carrier_that_blocks_both();
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    for_every_call(send_what_is_ignored);
}

/* --------------------------------------------------------------------------------------------- what comes first --- */

static void *look_at_what_is_ready(void *argument)
{
    const trial *t = argument;
    change(SIG_BLOCK, SIGUSR1);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(wait_with(t, FOR_EVER, 0), 1);
    CHECK_EQ(wait_with(t, 0, 0), 1);
    CHECK_EQ(atomic_load(&handled), 0);
    CHECK(is_pending(SIGUSR1));
    change(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(atomic_load(&handled), 1);
    return NULL;
}

static void write_first(trial *t)
{
    MUST(write(t->pair.ends[1], "x", 1));
    on_fiber(look_at_what_is_ready, t);
}

/* Linux checks the descriptors first, and then leaves the signal pending. */
static void what_is_ready_comes_before_a_signal(void)
{
    SKIP_UNDER_TSAN();
    handle(SIGUSR1, note);
    for_every_call(write_first);
}

static void *wait_for_a_byte(void *argument)
{
    CHECK_EQ(wait_with(argument, FOR_EVER, 0), 1);
    CHECK(is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
    return NULL;
}

static void write_later(trial *t)
{
    if (t->wait == by_ppoll_or_sleep)
        return;
    mr_fiber *fiber = spawn(wait_for_a_byte, t);
    let_fibers_park();
    MUST(write(t->pair.ends[1], "x", 1));
    join(fiber);
}

static void descriptors_end_the_wait_as_ever(void)
{
    SKIP_UNDER_TSAN();
    start_a_carrier_that_blocks_both();
    for_every_call(write_later);
}

/* ------------------------------------------------------------------------------------------------------ jumping --- */

static sigjmp_buf jump_target;

static void jump(int signal_number)
{
    (void)signal_number;
    siglongjmp(jump_target, 1);
}

static void *jump_out_of_a_wait(void *argument)
{
    const trial *t = argument;
    int before = open_descriptors();
    for (volatile int jumps = 0; jumps < 3;) {
        if (sigsetjmp(jump_target, 1) == 0) {
            wait_with(t, FOR_EVER, 0);
            CHECK(!"the wait has ended");
        }
        jumps = jumps + 1;
        CHECK(is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
        if (jumps < 3)
            MUST(kill(getpid(), SIGUSR1));
    }
    CHECK_EQ(usleep(1000), 0);
    CHECK(is_of_epoll(t) || open_descriptors() == before);
    return NULL;
}

static void send_for_a_jump(trial *t)
{
    mr_fiber *fiber = spawn(jump_out_of_a_wait, t);
    let_fibers_park();
    MUST(kill(getpid(), SIGUSR1));
    join(fiber);
}

static void a_jump_out_of_a_wait(void)
{
    SKIP_UNDER_TSAN();
    start_a_carrier_that_blocks_both();
    handle(SIGUSR1, jump);
    for_every_call(send_for_a_jump);
}

const fiber_case masked_cases[] = {
    CASE(what_the_mask_lets_in_ends_the_wait),
    CASE(what_the_fiber_has_blocked_ends_the_wait),
    CASE(what_is_pending_ends_the_wait_at_once),
    CASE(each_of_several_that_are_queued_ends_a_wait),
    CASE(what_the_mask_blocks_does_not_end_the_wait),
    CASE(what_is_ignored_ends_no_wait_but_of_epoll),
    CASE(what_is_ready_comes_before_a_signal),
    CASE(descriptors_end_the_wait_as_ever),
    CASE(a_jump_out_of_a_wait),
    {0},
};
