/* defects.c: defects that other libraries of transparent fibers have had. */
#include "interpose_test.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <sys/un.h>

static void *poll_without_timeout(void *argument)
{
    pair *p = argument;
    struct pollfd entry = {.fd = p->ends[0], .events = POLLIN};
    CHECK_EQ(poll(&entry, 1, 0), 0);
    return NULL;
}

/* A timeout of 0 with nothing ready must not park. */
static void poll_with_timeout_0_returns(void)
{
    pair p = new_pair();
    on_fiber(poll_without_timeout, &p);
    close_pair(&p);
}

static void *poll_both_ways(void *argument)
{
    pair *p = argument;
    char block[4096] = {0};
    while (send(p->ends[0], block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    struct pollfd entry = {.fd = p->ends[0], .events = POLLIN | POLLOUT};
    CHECK_EQ(poll(&entry, 1, 5000), 1);
    return (void *)(intptr_t)entry.revents;
}

/* POLLIN | POLLOUT on one descriptor must be woken by either. */
static void poll_for_both_directions(void)
{
    for (int way = 0; way < 2; way++) {
        pair p = new_pair();
        char block[65536];
        mr_fiber *fiber = spawn(poll_both_ways, &p);
        let_fibers_park();
        if (way == 0)
            MUST(write(p.ends[1], "x", 1));
        else
            while (recv(p.ends[1], block, sizeof block, MSG_DONTWAIT) > 0)
                ;
        CHECK_EQ((intptr_t)join(fiber), way == 0 ? POLLIN : POLLOUT);
        close_pair(&p);
    }
}

enum { POLLERS = 20 };

static void *poll_pairs(void *argument)
{
    pair *pairs = argument;
    struct pollfd entries[2] = {{.fd = pairs[0].ends[0], .events = POLLIN}, {.fd = pairs[1].ends[0], .events = POLLIN}};
    CHECK_EQ(poll(entries, 2, 10000), 1);
    CHECK_EQ(entries[0].revents, 0);
    CHECK_EQ(entries[1].revents, POLLIN);
    return NULL;
}

/* Many fibers wait for the same descriptors; none is dropped from the others' lists, and all are woken. */
static void many_pollers_of_the_same_descriptors(void)
{
    pair pairs[2] = {new_pair(), new_pair()};
    mr_fiber *fibers[POLLERS];
    for (int i = 0; i < POLLERS; i++)
        fibers[i] = spawn(poll_pairs, pairs);
    let_fibers_park();
    MUST(write(pairs[1].ends[1], "x", 1));
    for (int i = 0; i < POLLERS; i++)
        join(fibers[i]);
    close_pair(&pairs[0]);
    close_pair(&pairs[1]);
}

static void *read_once(void *argument)
{
    char byte;
    return (void *)(intptr_t)read(*(int *)argument, &byte, 1);
}

/* A hang-up without data, which epoll reports without EPOLLIN. */
static void hang_up_alone_wakes_a_reader(void)
{
    int ends[2];
    MUST(pipe(ends));
    mr_fiber *fiber = spawn(read_once, &ends[0]);
    let_fibers_park();
    MUST(close(ends[1]));
    CHECK_EQ((intptr_t)join(fiber), 0);
    MUST(close(ends[0]));
}

static void *read_three_datagrams(void *argument)
{
    char buffer[64];
    for (int i = 0; i < 3; i++)
        CHECK_EQ(recv(*(int *)argument, buffer, sizeof buffer, 0), 5);
    return NULL;
}

/* A short read of a datagram says nothing about the next. */
static void datagrams_are_not_taken_for_the_last(void)
{
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    for (int i = 0; i < 3; i++)
        MUST(write(ends[1], "hello", 5));
    on_fiber(read_three_datagrams, &ends[0]);
    close(ends[0]);
    close(ends[1]);
}

static void *peek_then_read(void *argument)
{
    char buffer[64];
    CHECK_EQ(recv(*(int *)argument, buffer, sizeof buffer, MSG_PEEK), 5);
    CHECK_EQ(recv(*(int *)argument, buffer, sizeof buffer, MSG_PEEK), 5);
    CHECK_EQ(recv(*(int *)argument, buffer, sizeof buffer, 0), 5);
    CHECK_EQ(recv(*(int *)argument, buffer, sizeof buffer, 0), 0); /* data and end came together */
    return NULL;
}

static void peeking_and_data_with_the_end(void)
{
    pair p = new_pair();
    MUST(write(p.ends[1], "hello", 5));
    MUST(shutdown(p.ends[1], SHUT_WR));
    on_fiber(peek_then_read, &p.ends[0]);
    close_pair(&p);
}

static void *receive_all(void *argument)
{
    char buffer[16];
    CHECK_EQ(recv(*(int *)argument, buffer, 10, MSG_WAITALL), 10);
    CHECK_MEMORY(buffer, "0123456789", 10);
    CHECK_EQ(recv(*(int *)argument, buffer, 10, MSG_WAITALL), 3); /* then the end */
    return NULL;
}

static void waiting_for_all_takes_parts(void)
{
    pair p = new_pair();
    mr_fiber *fiber = spawn(receive_all, &p.ends[0]);
    MUST(write(p.ends[1], "0123", 4));
    let_fibers_park();
    MUST(write(p.ends[1], "456789", 6));
    let_fibers_park();
    MUST(write(p.ends[1], "abc", 3));
    MUST(shutdown(p.ends[1], SHUT_WR));
    join(fiber);
    close_pair(&p);
}

static void send_with_descriptor(int socket, const char *text)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
    int passed = STDIN_FILENO;
    memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
    struct iovec vector = {(void *)text, strlen(text)};
    MUST(sendmsg(
        socket,
        &(struct msghdr){
            .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes},
        0));
}

static void *receive_all_with_descriptor(void *argument)
{
    union {
        struct cmsghdr header;
        char bytes[64];
    } control;
    char text[20];
    int passed;
    struct iovec vector = {text, sizeof text};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    CHECK_EQ(recvmsg(*(int *)argument, &message, MSG_WAITALL), 7);
    CHECK_MEMORY(text, "abcdefg", 7);
    CHECK_EQ(message.msg_controllen, CMSG_SPACE(sizeof(int)));
    CHECK_EQ(control.header.cmsg_type, SCM_RIGHTS);
    memcpy(&passed, CMSG_DATA(&control.header), sizeof passed);
    MUST(close(passed));
    return NULL;
}

/* A descriptor may arrive with any part of the bytes, and ends the receive as it does in the kernel. */
static void waiting_for_all_keeps_descriptors(void)
{
    pair p = new_pair();
    mr_fiber *fiber = spawn(receive_all_with_descriptor, &p.ends[0]);
    MUST(write(p.ends[1], "abc", 3));
    let_fibers_park();
    send_with_descriptor(p.ends[1], "defg");
    join(fiber);
    close_pair(&p);
}

static void *send_fast(void *argument)
{
    struct sockaddr_in *address = argument;
    int sender = MUST(socket(AF_INET, SOCK_STREAM, 0));
    ssize_t sent = sendto(sender, "hello", 5, MSG_FASTOPEN, (struct sockaddr *)address, sizeof *address);
    if (sent < 0 && errno == EOPNOTSUPP)
        SKIP("TCP Fast Open is switched off");
    CHECK_EQ(sent, 5);
    close(sender);
    return NULL;
}

/* The listener gives no cookie, so the connection must be established first. */
static void fast_open_without_a_cookie(void)
{
    char text[5];
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address, 1);
    on_fiber(send_fast, &address);
    int accepted = MUST(accept(listener, NULL, NULL));
    CHECK_EQ(recv(accepted, text, sizeof text, MSG_WAITALL), 5);
    close(accepted);
    close(listener);
}

static void *poll_or_sleep(void *argument)
{
    pair *p = argument;
    struct pollfd entry = {.fd = p->ends[0], .events = POLLIN};
    CHECK_EQ(poll(&entry, 1, 200), 0);
    usleep(10000);
    return NULL;
}

/* Waiting fibers and their timeouts must not hold descriptors. */
static void timeouts_hold_no_descriptors(void)
{
    enum { COUNT = 200 };
    mr_fiber *fibers[COUNT];
    pair p = new_pair();
    int before = open_descriptors();
    for (int i = 0; i < COUNT; i++)
        fibers[i] = spawn(poll_or_sleep, &p);
    CHECK_EQ(mr_fiber_sleep(50 * NS_PER_MS), 0);
    CHECK_LE(open_descriptors(), before + 5);
    for (int i = 0; i < COUNT; i++)
        join(fibers[i]);
    close_pair(&p);
}

static void *poll_without_descriptors_left(void *argument)
{
    pair *p = argument;
    struct rlimit limit, none;
    struct pollfd entries[2] = {{.fd = p->ends[0], .events = POLLIN}, {.fd = p->ends[1], .events = POLLIN}};
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    none = limit;
    none.rlim_cur = 0;
    MUST(setrlimit(RLIMIT_NOFILE, &none));
    CHECK_EQ(poll(NULL, 0, 20), 0);
    CHECK_EQ(select(0, NULL, NULL, NULL, &(struct timeval){.tv_usec = 20000}), 0);
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = (rlim_t)p->ends[1] + 1;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    CHECK_EQ(poll(entries, 2, 20), 0);
    return NULL;
}

static void polling_needs_no_descriptor(void)
{
    pair p = new_pair();
    on_fiber(poll_without_descriptors_left, &p);
    close_pair(&p);
}

static void *receive_and_check_flags(void *argument)
{
    pair *p = argument;
    char byte;
    CHECK_EQ(recv(p->ends[0], &byte, 1, 0), 1);
    CHECK_EQ(read(p->ends[0], &byte, 1), 1);
    return NULL;
}

/* The first call on a descriptor must not leave it in another mode, nor see the wrong one while others wait. */
static void flags_stay_as_they_were(void)
{
    pair p = new_pair();
    mr_fiber *fiber = spawn(receive_and_check_flags, &p);
    let_fibers_park();
    CHECK_EQ(fcntl(p.ends[0], F_GETFL) & O_NONBLOCK, 0);
    MUST(write(p.ends[1], "x", 1));
    let_fibers_park();
    CHECK_EQ(fcntl(p.ends[0], F_GETFL) & O_NONBLOCK, 0);
    MUST(write(p.ends[1], "x", 1));
    join(fiber);
    close_pair(&p);
}

static void *be_refused_at_once(void *argument)
{
    pair *p = argument;
    char byte;
    CHECK_EQ(recv(p->ends[0], &byte, 1, MSG_DONTWAIT), -1);
    CHECK_EQ(errno, EAGAIN);
    MUST(fcntl(p->ends[0], F_SETFL, O_NONBLOCK));
    CHECK_EQ(read(p->ends[0], &byte, 1), -1);
    CHECK_EQ(errno, EAGAIN);
    return NULL;
}

static void non_blocking_calls_do_not_park(void)
{
    pair p = new_pair();
    on_fiber(be_refused_at_once, &p);
    close_pair(&p);
}

static void *read_ipv6_address(void *argument)
{
    struct sockaddr_in6 address;
    socklen_t size = sizeof address;
    char byte;
    memset(&address, 0xee, sizeof address);
    CHECK_EQ(recvfrom(*(int *)argument, &byte, 1, 0, (struct sockaddr *)&address, &size), 1);
    CHECK_EQ(size, sizeof address);
    CHECK_EQ(address.sin6_family, AF_INET6);
    CHECK(IN6_IS_ADDR_LOOPBACK(&address.sin6_addr));
    return NULL;
}

/* Addresses are longer than 16 bytes. */
static void long_addresses(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t size = sizeof address;
    int one = MUST(socket(AF_INET6, SOCK_DGRAM, 0)), other = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    if (bind(one, (struct sockaddr *)&address, size) != 0)
        SKIP("there is no IPv6 here");
    MUST(getsockname(one, (struct sockaddr *)&address, &size));
    MUST(sendto(other, "x", 1, 0, (struct sockaddr *)&address, size));
    on_fiber(read_ipv6_address, &one);
    close(one);
    close(other);
}

typedef struct letterbox {
    int socket;
    struct sockaddr_un address;
    socklen_t size;
} letterbox;

static void *send_to_full_peer(void *argument)
{
    letterbox *box = argument;
    char block[1024] = {0};
    int sender = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    while (sendto(sender, block, sizeof block, MSG_DONTWAIT, (struct sockaddr *)&box->address, box->size) > 0)
        ;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    CHECK_EQ(sendto(sender, block, sizeof block, 0, (struct sockaddr *)&box->address, box->size), sizeof block);
    getrusage(RUSAGE_SELF, &after);
    long used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 + after.ru_utime.tv_usec -
                   before.ru_utime.tv_usec + (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
                   after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    CHECK_LT(used_us, 150000);
    close(sender);
    return NULL;
}

/* A Unix datagram socket that is not connected is writable whatever its peer's queue: waiting must not become
 * spinning. */
static void readiness_without_progress_does_not_spin(void)
{
    char block[1024];
    letterbox box = {.address.sun_family = AF_UNIX, .size = sizeof box.address};
    snprintf(box.address.sun_path + 1, sizeof box.address.sun_path - 1, "millrace-%d", (int)getpid()); /* abstract */
    box.socket = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    MUST(bind(box.socket, (struct sockaddr *)&box.address, box.size));
    mr_fiber *fiber = spawn(send_to_full_peer, &box);
    CHECK_EQ(mr_fiber_sleep(300 * NS_PER_MS), 0);
    MUST(recv(box.socket, block, sizeof block, 0));
    join(fiber);
    close(box.socket);
}

const fiber_case defects_cases[] = {
    CASE(poll_with_timeout_0_returns),
    CASE(poll_for_both_directions),
    CASE(many_pollers_of_the_same_descriptors),
    CASE(hang_up_alone_wakes_a_reader),
    CASE(datagrams_are_not_taken_for_the_last),
    CASE(peeking_and_data_with_the_end),
    CASE(waiting_for_all_takes_parts),
    CASE(waiting_for_all_keeps_descriptors),
    CASE(fast_open_without_a_cookie),
    CASE(timeouts_hold_no_descriptors),
    CASE(polling_needs_no_descriptor),
    CASE(flags_stay_as_they_were),
    CASE(non_blocking_calls_do_not_park),
    CASE(long_addresses),
    CASE(readiness_without_progress_does_not_spin),
    {0},
};
