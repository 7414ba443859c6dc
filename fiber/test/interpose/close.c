/* close.c: descriptors that are closed or replaced while fibers wait for them. */
#include "interpose_test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

static void *receive_error(void *argument)
{
    char byte;
    return (void *)(intptr_t)(recv(*(int *)argument, &byte, 1, 0) < 0 ? errno : 0);
}

static void close_wakes_waiters(void)
{
    pair p = new_pair();
    int descriptor = p.ends[0];
    mr_fiber *fibers[5];
    for (int i = 0; i < 5; i++)
        fibers[i] = spawn(receive_error, &descriptor);
    let_fibers_park();
    MUST(close(p.ends[0]));
    for (int i = 0; i < 5; i++)
        CHECK_EQ((intptr_t)join(fibers[i]), EBADF);
    MUST(close(p.ends[1]));
}

static void *close_on_fiber(void *argument)
{
    return (void *)(intptr_t)close(*(int *)argument);
}

static void close_by_another_fiber(void)
{
    pair p = new_pair();
    mr_fiber *reader = spawn(receive_error, &p.ends[0]);
    let_fibers_park();
    CHECK_EQ((intptr_t)on_fiber(close_on_fiber, &p.ends[0]), 0);
    CHECK_EQ((intptr_t)join(reader), EBADF);
    MUST(close(p.ends[1]));
}

/* The number immediately means another socket; the old waiter must not receive the new socket's byte. */
static void the_next_owner_of_the_number_is_left_alone(void)
{
    pair p = new_pair(), q = new_pair();
    int descriptor = p.ends[0];
    char byte = 0;
    mr_fiber *reader = spawn(receive_error, &descriptor);
    let_fibers_park();
    MUST(dup2(q.ends[0], descriptor));
    MUST(write(q.ends[1], "n", 1));
    CHECK_EQ((intptr_t)join(reader), EBADF);
    CHECK_EQ(recv(descriptor, &byte, 1, MSG_DONTWAIT), 1);
    CHECK_EQ(byte, 'n');
    close_pair(&p);
    close_pair(&q);
}

static void *reuse_often(void *argument)
{
    for (unsigned i = 0; i < harness_rounds(400); i++) {
        pair p = new_pair();
        int descriptor = p.ends[0];
        mr_fiber *reader = spawn(receive_error, &descriptor);
        mr_fiber_yield();
        if (i % 3 == 0)
            MUST(write(p.ends[1], "x", 1));
        MUST(close(p.ends[0]));
        intptr_t error = (intptr_t)join(reader);
        CHECK(error == EBADF || (error == 0 && i % 3 == 0));
        MUST(close(p.ends[1]));
    }
    return argument;
}

static void numbers_are_reused_safely(void)
{
    mr_fiber *fibers[4];
    for (int i = 0; i < 4; i++)
        fibers[i] = spawn(reuse_often, NULL);
    for (int i = 0; i < 4; i++)
        join(fibers[i]);
}

static void *poll_closed(void *argument)
{
    struct pollfd entry = {.fd = *(int *)argument, .events = POLLIN};
    CHECK_EQ(poll(&entry, 1, 5000), 1);
    return (void *)(intptr_t)entry.revents;
}

static void close_ends_a_poll(void)
{
    pair p = new_pair();
    mr_fiber *fiber = spawn(poll_closed, &p.ends[0]);
    let_fibers_park();
    MUST(close(p.ends[0]));
    CHECK_EQ((intptr_t)join(fiber), POLLNVAL);
    MUST(close(p.ends[1]));
}

typedef struct poll_of_two {
    struct pollfd entries[2];
    int timeout_ms;
} poll_of_two;

static void *poll_two(void *argument)
{
    poll_of_two *two = argument;
    return (void *)(intptr_t)poll(two->entries, 2, two->timeout_ms);
}

/* In both ways in which the poll may wait: by two operations, or through an epoll set. */
static void close_ends_a_poll_of_two(void)
{
    static const short events[] = {POLLIN, POLLIN | POLLPRI};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        pair p = new_pair(), q = new_pair();
        poll_of_two two = {.entries = {{.fd = p.ends[0], .events = events[i]}, {.fd = q.ends[0], .events = events[i]}},
                           .timeout_ms = 5000};
        mr_fiber *fiber = spawn(poll_two, &two);
        let_fibers_park();
        MUST(close(q.ends[0]));
        CHECK_EQ((intptr_t)join(fiber), 1);
        CHECK_EQ(two.entries[0].revents, 0);
        CHECK_EQ(two.entries[1].revents, POLLNVAL);
        MUST(close(q.ends[1]));
        close_pair(&p);
    }
}

static void connect_over_tcp(int ends[2])
{
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address, 1);
    ends[0] = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(ends[0], (struct sockaddr *)&address, sizeof address));
    ends[1] = MUST(accept(listener, NULL, NULL));
    MUST(close(listener));
}

/* If the peer does not read the data, closing takes as long as the socket lingers. */
static void a_lingering_close_ends_a_poll(void)
{
    int ends[2];
    struct linger linger = {.l_onoff = 1, .l_linger = 1};
    char data[4096] = {0};
    connect_over_tcp(ends);
    while (send(ends[0], data, sizeof data, MSG_DONTWAIT) > 0)
        ;
    MUST(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    mr_fiber *fiber = spawn(poll_closed, &ends[0]);
    let_fibers_park();
    uint64_t begin_ns = mr_clock_now_ns();
    CHECK_EQ((intptr_t)on_fiber(close_on_fiber, &ends[0]), 0);
    CHECK_EQ((intptr_t)join(fiber), POLLNVAL);
    CHECK_LT(mr_clock_now_ns() - begin_ns, 4000 * NS_PER_MS); /* the poll by itself would take 5 s */
    MUST(close(ends[1]));
}

static void *replace_by_standard_input(void *argument)
{
    int descriptor = *(int *)argument;
    CHECK_EQ(dup2(STDIN_FILENO, descriptor), descriptor);
    MUST(close(descriptor));
    return NULL;
}

static void *replace_and_close_on_exec(void *argument)
{
    int descriptor = *(int *)argument;
    CHECK_EQ(dup3(STDIN_FILENO, descriptor, O_CLOEXEC), descriptor);
    CHECK_EQ(fcntl(descriptor, F_GETFD), FD_CLOEXEC);
    MUST(close(descriptor));
    return NULL;
}

static void *close_its_stream(void *argument)
{
    FILE *stream = fdopen(*(int *)argument, "r");
    CHECK(stream != NULL);
    CHECK_EQ(fclose(stream), 0);
    return NULL;
}

/* The other calls that close a socket. */
static void lingering_leaves_the_carrier_free(void)
{
    static void *(*const closings[])(void *) = {replace_by_standard_input, replace_and_close_on_exec, close_its_stream};
    struct linger linger = {.l_onoff = 1, .l_linger = 1};
    char data[4096] = {0};
    int ends[2];
    for (size_t i = 0; i < sizeof closings / sizeof *closings; i++) {
        connect_over_tcp(ends);
        while (send(ends[0], data, sizeof data, MSG_DONTWAIT) > 0)
            ;
        MUST(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
        must_leave_carrier_free(closings[i], &ends[0]);
        MUST(close(ends[1]));
    }
}

static void a_dup2_that_fails_ends_nothing(void)
{
    pair p = new_pair();
    mr_fiber *reader = spawn(receive_error, &p.ends[0]);
    let_fibers_park();
    CHECK_EQ(dup2(-1, p.ends[0]), -1);
    CHECK_EQ(dup3(-1, p.ends[0], 0), -1);
    CHECK_EQ(dup3(p.ends[1], p.ends[0], O_APPEND), -1);
    MUST(write(p.ends[1], "x", 1));
    CHECK_EQ((intptr_t)join(reader), 0);
    close_pair(&p);
}

static volatile sig_atomic_t closed_by_handler;
static int descriptor_for_handler;

/* Onto the same number, again and again. ThreadSanitizer changes errno by itself. */
static void close_in_handler(int signal_number)
{
    (void)signal_number;
    int error = errno;
    closed_by_handler = closed_by_handler + 1;
    close(dup2(STDIN_FILENO, descriptor_for_handler));
    errno = error;
}

/* One shot: a handler that takes as long as a timer's interval would leave no time for anything else. */
static void interrupt_soon(unsigned microseconds)
{
    MUST(setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = microseconds}, NULL));
}

static void *wait_for_close(void *argument)
{
    while (!atomic_load((atomic_bool *)argument)) {
        char byte;
        if (read(descriptor_for_handler, &byte, 1) < 0)
            mr_fiber_yield();
    }
    return NULL;
}

/* A signal handler closes descriptors that fibers wait for while its thread does the same. */
static void closing_in_a_signals_handler(void)
{
    if (!has_preadv2())
        SKIP("without preadv2, a read may block if the descriptor is exchanged between poll and read");
    atomic_bool is_over = false;
    int quiet[2];
    MUST(pipe(quiet));
    descriptor_for_handler = MUST(fcntl(STDIN_FILENO, F_DUPFD, 300));
    mr_fiber *fiber = spawn(wait_for_close, &is_over);
    CHECK(signal(SIGALRM, close_in_handler) != SIG_ERR);
    for (unsigned i = 0; i < harness_rounds(20000); i++) {
        if (i % 4 == 0)
            interrupt_soon(1 + i % 61);
        dup2(quiet[0], descriptor_for_handler);
        close(descriptor_for_handler);
    }
    interrupt_soon(0);
    atomic_store(&is_over, true);
    close(descriptor_for_handler);
    join(fiber);
    CHECK_GT(closed_by_handler, 0);
    MUST(close(quiet[0]));
    MUST(close(quiet[1]));
}

/* What a child closes between vfork and exec is the child's; the memory is shared. */
static void a_vforked_child_closes_its_own(void)
{
    pair p = new_pair();
    char byte;
    mr_fiber *reader = spawn(receive_error, &p.ends[0]);
    let_fibers_park();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t child = vfork();
#pragma GCC diagnostic pop
    if (child == 0) {
        close(p.ends[0]);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    let_fibers_park();
    MUST(write(p.ends[1], "x", 1));
    CHECK_EQ((intptr_t)join(reader), 0);
    CHECK_EQ(recv(p.ends[0], &byte, 1, MSG_DONTWAIT), -1);
    close_pair(&p);
}

/* A receive on the carrier, and a close on this thread that comes before it, after it, or in between. */
typedef struct race {
    int descriptor;
    unsigned delay;
    atomic_bool begun, ended;
} race;

static void waste_time(unsigned turns)
{
    for (volatile unsigned i = 0; i < turns; i++)
        ;
}

static void *receive_when_told(void *argument)
{
    race *r = argument;
    while (!atomic_load(&r->begun))
        ;
    waste_time(r->delay);
    void *error = receive_error(&r->descriptor);
    atomic_store(&r->ended, true);
    return error;
}

static void close_meets_a_wait_that_begins(void)
{
    unsigned seed = 1;
    for (unsigned i = 0; i < harness_rounds(500); i++) {
        pair p = new_pair();
        race r = {.descriptor = p.ends[0], .delay = (seed = seed * 1103515245 + 12345) >> 8 & 511};
        mr_fiber *reader = spawn(receive_when_told, &r);
        atomic_store(&r.begun, true);
        waste_time((seed = seed * 1103515245 + 12345) >> 8 & 2047);
        MUST(close(p.ends[0]));
        uint64_t begin_ns = mr_clock_now_ns();
        while (!atomic_load(&r.ended) && mr_clock_now_ns() - begin_ns < 2000 * NS_PER_MS)
            sched_yield();
        CHECK(atomic_load(&r.ended));
        CHECK_EQ((intptr_t)join(reader), EBADF);
        MUST(close(p.ends[1]));
    }
}

const fiber_case close_cases[] = {
    CASE(close_wakes_waiters),
    CASE(close_by_another_fiber),
    CASE(the_next_owner_of_the_number_is_left_alone),
    CASE(numbers_are_reused_safely),
    CASE(close_ends_a_poll),
    CASE(close_ends_a_poll_of_two),
    CASE(a_lingering_close_ends_a_poll),
    CASE(lingering_leaves_the_carrier_free),
    CASE(a_dup2_that_fails_ends_nothing),
    CASE(closing_in_a_signals_handler),
    CASE(a_vforked_child_closes_its_own),
    CASE(close_meets_a_wait_that_begins),
    {0},
};
