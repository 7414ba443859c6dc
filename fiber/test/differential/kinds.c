/* kinds.c: the kinds of descriptors, and how to bring them into each situation. Runs on OS threads. */
#include "differential.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

static const char bytes[] = "the quick brown fox";

static void set_nonblocking(int descriptor, bool on)
{
    int flags = MUST(fcntl(descriptor, F_GETFL));
    MUST(fcntl(descriptor, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

static void write_bytes(world *w)
{
    MUST(write(w->peer, bytes, sizeof bytes));
}

/* Reads as long as the call lasts, and then everything that is left: the number of bytes left depends on scheduling and
 * must not be compared. */
static void drain_peer(world *w)
{
    char buffer[65536];
    struct pollfd entry = {.fd = w->peer, .events = POLLIN};
    bool call_was_over, is_readable;
    do {
        call_was_over = atomic_load(&w->call_is_over);
        is_readable = poll(&entry, 1, 2) > 0;
        if (is_readable && read(w->peer, buffer, sizeof buffer) <= 0)
            return;
    } while (is_readable || !call_was_over);
}

static void fill(world *w)
{
    char block[4096] = {0};
    set_nonblocking(w->descriptor, true);
    while (write(w->descriptor, block, sizeof block) > 0 || write(w->descriptor, block, 1) > 0)
        ;
    set_nonblocking(w->descriptor, false);
}

static void close_peer(world *w)
{
    MUST(close(w->peer));
    w->peer = -1;
    usleep(1000);
}

/* ------------------------------------------------------------------------------------------------------ sockets --- */

static int listen_on_loopback(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(bind(listener, (struct sockaddr *)address, size));
    MUST(listen(listener, 16));
    MUST(getsockname(listener, (struct sockaddr *)address, &size));
    return listener;
}

static void note_address(world *w, const void *address, socklen_t size)
{
    memcpy(&w->peer_address, address, size);
    w->peer_address_size = size;
}

static void open_tcp(world *w)
{
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);
    w->descriptor = MUST(socket(AF_INET, SOCK_STREAM, 0));
    int small = 16384;
    setsockopt(w->descriptor, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    MUST(connect(w->descriptor, (struct sockaddr *)&address, sizeof address));
    w->peer = MUST(accept(listener, NULL, NULL));
    close(listener);
    note_address(w, &address, sizeof address);
}

static void open_listener(world *w)
{
    struct sockaddr_in address;
    w->descriptor = listen_on_loopback(&address);
    w->peer = -1;
    note_address(w, &address, sizeof address);
}

static void connect_to_listener(world *w)
{
    w->peer = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(w->peer, (struct sockaddr *)&w->peer_address, w->peer_address_size));
}

static int bound_udp(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int udp = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(bind(udp, (struct sockaddr *)address, size));
    MUST(getsockname(udp, (struct sockaddr *)address, &size));
    return udp;
}

static void open_udp(world *w)
{
    struct sockaddr_in one, other;
    w->descriptor = bound_udp(&one);
    w->peer = bound_udp(&other);
    MUST(connect(w->descriptor, (struct sockaddr *)&other, sizeof other));
    MUST(connect(w->peer, (struct sockaddr *)&one, sizeof one));
    note_address(w, &other, sizeof other);
}

/* Two datagrams: a short read of the first must not count as emptying the socket. */
static void write_two_datagrams(world *w)
{
    MUST(write(w->peer, bytes, 4));
    MUST(write(w->peer, bytes + 4, sizeof bytes - 4));
}

static void open_unix(world *w, int type)
{
    int ends[2];
    MUST(socketpair(AF_UNIX, type, 0, ends));
    w->descriptor = ends[0];
    w->peer = ends[1];
}

static void open_unix_stream(world *w)
{
    open_unix(w, SOCK_STREAM);
}

static void open_unix_datagram(world *w)
{
    open_unix(w, SOCK_DGRAM);
}

/* --------------------------------------------------------------------------------------------------- the others --- */

static void open_pipe_reader(world *w)
{
    int ends[2];
    MUST(pipe(ends));
    w->descriptor = ends[0];
    w->peer = ends[1];
}

static void open_pipe_writer(world *w)
{
    int ends[2];
    MUST(pipe(ends));
    w->descriptor = ends[1];
    w->peer = ends[0];
}

static void open_tty(world *w)
{
    struct termios settings;
    MUST(openpty(&w->peer, &w->descriptor, NULL, NULL, NULL));
    MUST(tcgetattr(w->descriptor, &settings));
    cfmakeraw(&settings);
    MUST(tcsetattr(w->descriptor, TCSANOW, &settings));
}

/* A worker thread of the kernel moves the bytes. */
static void make_tty_ready(world *w)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    write_bytes(w);
    MUST(poll(&entry, 1, -1));
}

/* Waits until the bytes have arrived or the call has read them. */
static void write_to_tty(world *w)
{
    int before = 0, now;
    bool call_was_over = atomic_load(&w->call_is_over);
    MUST(ioctl(w->descriptor, FIONREAD, &before));
    now = before;
    write_bytes(w);
    while (now == before && (call_was_over || !atomic_load(&w->call_is_over))) {
        usleep(500);
        MUST(ioctl(w->descriptor, FIONREAD, &now));
    }
}

static void open_file(world *w)
{
    char path[] = "/tmp/millrace-differential-XXXXXX";
    w->descriptor = MUST(mkstemp(path));
    w->peer = -1;
    MUST(unlink(path));
    MUST(write(w->descriptor, bytes, sizeof bytes));
    MUST(lseek(w->descriptor, 3, SEEK_SET));
}

static void open_directory(world *w)
{
    w->descriptor = MUST(open("/", O_RDONLY | O_DIRECTORY));
    w->peer = -1;
}

static void open_null(world *w)
{
    w->descriptor = MUST(open("/dev/null", O_RDWR));
    w->peer = -1;
}

static void open_eventfd(world *w)
{
    w->descriptor = MUST(eventfd(0, 0));
    w->peer = MUST(dup(w->descriptor));
}

static void add_to_eventfd(world *w)
{
    uint64_t one = 1;
    struct pollfd entry = {.fd = w->peer, .events = POLLOUT};
    if (poll(&entry, 1, 0) > 0)
        MUST(write(w->peer, &one, sizeof one));
}

static void fill_eventfd(world *w)
{
    uint64_t most = UINT64_MAX - 1;
    MUST(write(w->peer, &most, sizeof most));
}

static void open_timerfd(world *w)
{
    w->descriptor = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    w->peer = -1;
}

static void fire_timer(world *w)
{
    struct itimerspec at_once = {.it_value.tv_nsec = 1};
    MUST(timerfd_settime(w->descriptor, 0, &at_once, NULL));
    usleep(2000);
}

static void open_closed(world *w)
{
    w->descriptor = MUST(dup(STDOUT_FILENO));
    w->peer = -1;
    MUST(close(w->descriptor));
}

const kind kinds[] = {
    /* A full TCP socket sometimes accepts more bytes (window probes, autotuning), so the outcome of a call would be
     * random. */
    {"tcp", true, open_tcp, write_bytes, NULL, close_peer, write_bytes, drain_peer},
    {"udp", true, open_udp, write_two_datagrams, NULL, NULL, write_bytes, NULL},
    {"unix_stream", true, open_unix_stream, write_bytes, fill, close_peer, write_bytes, drain_peer},
    {"unix_datagram", true, open_unix_datagram, write_two_datagrams, fill, close_peer, write_bytes, drain_peer},
    {"listener", true, open_listener, connect_to_listener, NULL, NULL, connect_to_listener, NULL},
    {"pipe_reader", false, open_pipe_reader, write_bytes, NULL, close_peer, write_bytes, NULL},
    {"pipe_writer", false, open_pipe_writer, NULL, fill, close_peer, NULL, drain_peer},
    {"tty", false, open_tty, make_tty_ready, NULL, close_peer, write_to_tty, drain_peer},
    {"file", false, open_file, NULL, NULL, NULL, NULL, NULL},
    {"directory", false, open_directory, NULL, NULL, NULL, NULL, NULL},
    {"null", false, open_null, NULL, NULL, NULL, NULL, NULL},
    {"eventfd", false, open_eventfd, add_to_eventfd, fill_eventfd, NULL, add_to_eventfd, drain_peer},
    {"timerfd", false, open_timerfd, fire_timer, NULL, NULL, fire_timer, NULL},
    {"closed", false, open_closed, NULL, NULL, NULL, NULL, NULL},
};

const size_t kind_count = sizeof kinds / sizeof *kinds;
