/* send.c: sends that wait on a full Unix socket, and what ends them. */
#include "interpose_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static atomic_int broken_pipes;

static void count_broken_pipe(int signal_number)
{
    (void)signal_number;
    atomic_fetch_add(&broken_pipes, 1);
}

typedef ssize_t sending(int socket);

static ssize_t by_send(int socket)
{
    return send(socket, "x", 1, 0);
}

static ssize_t by_sendmsg(int socket)
{
    struct iovec vector = {"x", 1};
    return sendmsg(socket, &(struct msghdr){.msg_iov = &vector, .msg_iovlen = 1}, MSG_NOSIGNAL);
}

static ssize_t by_write(int socket)
{
    return write(socket, "x", 1);
}

static sending *const sendings[] = {by_send, by_sendmsg, by_write};

static void shut_for_sending(pair *p)
{
    MUST(shutdown(p->ends[0], SHUT_WR));
}

static void shut_peer_for_receiving(pair *p)
{
    MUST(shutdown(p->ends[1], SHUT_RD));
}

static void shut_peer(pair *p)
{
    MUST(shutdown(p->ends[1], SHUT_RDWR));
}

/* Nobody has read what was sent to it. */
static void close_peer(pair *p)
{
    MUST(close(p->ends[1]));
    p->ends[1] = -1;
}

typedef struct attempt {
    sending *send;
    int socket;
    ssize_t result;
    int error, signals;
    atomic_int thread; /* which makes it; 0 before */
} attempt;

static void *send_once(void *argument)
{
    attempt *a = argument;
    int before = atomic_load(&broken_pipes);
    atomic_store(&a->thread, (int)syscall(SYS_gettid));
    a->result = a->send(a->socket);
    a->error = errno;
    a->signals = atomic_load(&broken_pipes) - before;
    return NULL;
}

static void fill(int socket)
{
    char block[1024] = {0};
    int flags = MUST(fcntl(socket, F_GETFL));
    MUST(fcntl(socket, F_SETFL, flags | O_NONBLOCK));
    while (write(socket, block, sizeof block) > 0 || write(socket, block, 1) > 0)
        ;
    MUST(fcntl(socket, F_SETFL, flags));
}

static pair full_pair(int type)
{
    pair p;
    MUST(socketpair(AF_UNIX, type, 0, p.ends));
    fill(p.ends[0]);
    return p;
}

static void end_pair(pair *p)
{
    MUST(close(p->ends[0]));
    if (p->ends[1] >= 0)
        MUST(close(p->ends[1]));
}

/* Waits until the thread waits in the kernel. */
static void let_thread_wait(const atomic_int *thread)
{
    char state = 0;
    for (int tries = 0; state != 'S' && tries < 10000; tries++) {
        char path[64], text[256] = "";
        usleep(1000);
        (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(thread));
        FILE *file = fopen(path, "r");
        if (!file)
            continue; /* the thread has not begun */
        const char *end = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
        state = end && end[1] == ' ' ? end[2] : 0;
        (void)fclose(file);
    }
    CHECK_EQ(state, 'S');
}

static attempt end_on_thread(sending *send, int type, void (*end)(pair *))
{
    pthread_t thread;
    pair p = full_pair(type);
    attempt a = {.send = send, .socket = p.ends[0]};
    CHECK_EQ(pthread_create(&thread, NULL, send_once, &a), 0);
    let_thread_wait(&a.thread);
    end(&p);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    end_pair(&p);
    return a;
}

static attempt end_on_fiber(sending *send, int type, void (*end)(pair *))
{
    pair p = full_pair(type);
    attempt a = {.send = send, .socket = p.ends[0]};
    mr_fiber *fiber = spawn(send_once, &a);
    let_fibers_park();
    end(&p);
    join(fiber);
    end_pair(&p);
    return a;
}

static void check_end(int type, void (*end)(pair *))
{
    for (size_t i = 0; i < sizeof sendings / sizeof *sendings; i++) {
        harness_note_line("call", (int)i);
        attempt on_thread = end_on_thread(sendings[i], type, end);
        attempt on_fiber = end_on_fiber(sendings[i], type, end);
        CHECK_EQ(on_fiber.result, on_thread.result);
        CHECK_EQ(on_fiber.error, on_thread.error);
        CHECK_EQ(on_fiber.signals, on_thread.signals);
    }
}

static void check_ends_of_connections(void (*end)(pair *))
{
    CHECK_NE(signal(SIGPIPE, count_broken_pipe), SIG_ERR);
    check_end(SOCK_STREAM, end);
    check_end(SOCK_SEQPACKET, end);
}

static void shutting_down_the_socket_ends_them(void)
{
    check_ends_of_connections(shut_for_sending);
    check_end(SOCK_DGRAM, shut_for_sending);
}

static void a_peer_that_receives_no_more_ends_them(void)
{
    check_ends_of_connections(shut_peer_for_receiving);
}

static void a_peer_that_is_shut_down_ends_them(void)
{
    check_ends_of_connections(shut_peer);
}

static void a_peer_that_closes_ends_them(void)
{
    check_ends_of_connections(close_peer);
    check_end(SOCK_DGRAM, close_peer);
}

const fiber_case send_cases[] = {
    CASE(shutting_down_the_socket_ends_them),
    CASE(a_peer_that_receives_no_more_ends_them),
    CASE(a_peer_that_is_shut_down_ends_them),
    CASE(a_peer_that_closes_ends_them),
    {0},
};
