/* last_receive.c: receiving again after a receive that did not fill its buffer. */
#include "interpose_test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

/* Two receives of one fiber, with something that happens in between. */
typedef struct scene {
    pair p;
    void (*between)(struct scene *);
    ssize_t (*receive)(int descriptor, char *to, size_t size);
    char got[16];
    ssize_t result;
    int error;
} scene;

static ssize_t by_recv(int descriptor, char *to, size_t size)
{
    return recv(descriptor, to, size, 0);
}

static ssize_t by_read(int descriptor, char *to, size_t size)
{
    return read(descriptor, to, size);
}

static ssize_t by_recvmsg(int descriptor, char *to, size_t size)
{
    struct iovec vector = {to, size};
    return recvmsg(descriptor, &(struct msghdr){.msg_iov = &vector, .msg_iovlen = 1}, 0);
}

static void *play(void *argument)
{
    scene *s = argument;
    CHECK_EQ(s->receive(s->p.ends[0], s->got, sizeof s->got), 5);
    s->between(s);
    s->result = s->receive(s->p.ends[0], s->got, sizeof s->got);
    s->error = s->result < 0 ? errno : 0;
    return NULL;
}

/* By each way to receive; the second one must end within a second. */
static void must_end(void (*between)(scene *), ssize_t result, int error)
{
    ssize_t (*const ways[])(int, char *, size_t) = {by_recv, by_read, by_recvmsg};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        scene s = {.p = new_pair(), .between = between, .receive = ways[i]};
        MUST(write(s.p.ends[1], "short", 5));
        uint64_t begin_ns = mr_clock_now_ns();
        join(spawn(play, &s));
        CHECK_EQ(s.result, result);
        CHECK_EQ(s.error, error);
        CHECK_LT(mr_clock_now_ns() - begin_ns, 1000 * NS_PER_MS);
        MUST(close(s.p.ends[0]));
        close(s.p.ends[1]);
    }
}

static void write_more(scene *s)
{
    MUST(write(s->p.ends[1], "more", 4));
}

static void what_has_come_meanwhile_is_received(void)
{
    must_end(write_more, 4, 0);
}

static void hang_up(scene *s)
{
    MUST(close(s->p.ends[1]));
}

static void the_end_is_told(void)
{
    must_end(hang_up, 0, 0);
}

static void stop_receiving(scene *s)
{
    MUST(shutdown(s->p.ends[0], SHUT_RD));
}

static void the_own_end_is_told(void)
{
    must_end(stop_receiving, 0, 0);
}

static void stop_blocking(scene *s)
{
    MUST(fcntl(s->p.ends[0], F_SETFL, O_NONBLOCK));
}

static void a_socket_that_no_longer_blocks_answers(void)
{
    must_end(stop_blocking, -1, EAGAIN);
}

static void limit(scene *s)
{
    struct timeval limit = {.tv_usec = 10000};
    MUST(setsockopt(s->p.ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
}

static void a_timeout_ends_it(void)
{
    must_end(limit, -1, EAGAIN);
}

static void replace_descriptor(scene *s, int other)
{
    MUST(dup2(other, s->p.ends[0]));
    MUST(close(other));
}

/* recv fails at once on a listener, which is not connected; a wait would end only when a client comes. */
static void become_listener(scene *s)
{
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(listen(listener, 1));
    replace_descriptor(s, listener);
}

static void another_socket_by_that_number_is_asked(void)
{
    must_end(become_listener, -1, ENOTCONN);
}

static void become_datagrams(scene *s)
{
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    MUST(write(ends[1], "a", 1));
    MUST(write(ends[1], "bc", 2));
    replace_descriptor(s, ends[0]);
    MUST(close(ends[1]));
    CHECK_EQ(s->receive(s->p.ends[0], s->got, sizeof s->got), 1);
}

static void a_short_datagram_empties_nothing(void)
{
    must_end(become_datagrams, 2, 0);
}

static void close_unseen(scene *s)
{
    int file = MUST(memfd_create("emptied", 0));
    MUST(write(file, "bytes", 5));
    MUST((int)lseek(file, 0, SEEK_SET));
    MUST((int)syscall(SYS_close, s->p.ends[0]));
    MUST((int)syscall(SYS_dup3, file, s->p.ends[0], 0));
    MUST((int)syscall(SYS_close, file));
}

/* Then the record of the number is wrong, and nothing can wait for a file. */
static void a_file_in_place_of_a_socket_closed_unseen_is_read(void)
{
    scene s = {.p = new_pair(), .between = close_unseen, .receive = by_read};
    MUST(write(s.p.ends[1], "short", 5));
    join(spawn(play, &s));
    CHECK_EQ(s.result, 5);
    CHECK_EQ(memcmp(s.got, "bytes", 5), 0);
    close_pair(&s.p);
}

static void *receive_slowly(void *argument)
{
    pair *p = argument;
    char got[16];
    for (int i = 0; i < 3; i++)
        CHECK_EQ(recv(p->ends[0], got, sizeof got, 0), 1);
    return NULL;
}

static void *wait_for_bytes(void *argument)
{
    pair *p = argument;
    mr_fiber *reader = spawn(receive_slowly, p);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(mr_fiber_sleep(PAUSE_MS / 3 * NS_PER_MS), 0);
        MUST(write(p->ends[1], "x", 1));
    }
    join(reader);
    return NULL;
}

static void waiting_first_leaves_the_carrier_free(void)
{
    pair p = new_pair();
    must_leave_carrier_free(wait_for_bytes, &p);
    close_pair(&p);
}

const fiber_case last_receive_cases[] = {
    CASE(what_has_come_meanwhile_is_received),
    CASE(the_end_is_told),
    CASE(the_own_end_is_told),
    CASE(a_socket_that_no_longer_blocks_answers),
    CASE(a_timeout_ends_it),
    CASE(another_socket_by_that_number_is_asked),
    CASE(a_short_datagram_empties_nothing),
    CASE(a_file_in_place_of_a_socket_closed_unseen_is_read),
    CASE(waiting_first_leaves_the_carrier_free),
    {0},
};
