/* posix.c: system.h on Linux and other systems with these calls. */
#include "../harness.h"
#include "../system.h"
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ connections --- */

void local_pair(int descriptors[2])
{
    MUST(system_socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, descriptors));
}

void local_pair_at(int number, int descriptors[2])
{
    enum { HIGH = 700 };
    int low[2];
    local_pair(low);
    int first = MUST(system_fcntl(low[0], F_DUPFD_CLOEXEC, HIGH));
    descriptors[1] = MUST(system_fcntl(low[1], F_DUPFD_CLOEXEC, HIGH));
    system_close(low[0]);
    system_close(low[1]);
    descriptors[0] = MUST(system_dup3(first, number, O_CLOEXEC));
    system_close(first);
}

size_t pairs_possible(size_t wanted)
{
    struct rlimit limit;
    MUST(system_getrlimit(&limit));
    limit.rlim_cur = limit.rlim_max;
    MUST(system_setrlimit(&limit));
    size_t possible = (limit.rlim_cur - 100) / 2;
    if (possible < 1000)
        SKIP("only %llu descriptors (RLIMIT_NOFILE)", (unsigned long long)limit.rlim_cur);
    return possible < wanted ? possible : wanted;
}

int tcp_socket(void)
{
    return MUST(system_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int tcp_listener(int backlog, struct sockaddr_in *address)
{
    int listener = tcp_socket();
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(system_bind(listener, (struct sockaddr *)address, sizeof *address));
    MUST(system_listen(listener, backlog));
    *address = own_address(listener);
    return listener;
}

void tcp_pair(int descriptors[2])
{
    struct sockaddr_in address;
    int listener = tcp_listener(1, &address);
    descriptors[1] = connect_to(&address);
    descriptors[0] = accept_one(listener);
    system_close(listener);
}

int full_listener(struct sockaddr_in *address)
{
    int listener = tcp_listener(0, address);
    for (int i = 0; i < 4; i++) {
        int error = begin_to_connect(tcp_socket(), address);
        CHECK(error == 0 || error == -EINPROGRESS);
    }
    sleep_ms(5);
    return listener;
}

struct sockaddr_in dead_address(void)
{
    struct sockaddr_in address;
    system_close(tcp_listener(1, &address));
    return address;
}

int begin_to_connect(int descriptor, const struct sockaddr_in *address)
{
    return system_connect(descriptor, (const struct sockaddr *)address, sizeof *address) < 0 ? -errno : 0;
}

int connect_to(const struct sockaddr_in *address)
{
    int client = tcp_socket(), error = 0;
    socklen_t size = sizeof error;
    if (begin_to_connect(client, address) < 0) {
        CHECK_EQ(errno, EINPROGRESS);
        system_await(client, false);
        MUST(system_getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size));
        CHECK_EQ(error, 0);
    }
    return client;
}

void await_input(int descriptor)
{
    system_await(descriptor, true);
}

int accept_one(int listener)
{
    await_input(listener);
    return MUST(system_accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void accept_all(int listener)
{
    while (system_accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) >= 0)
        ;
    CHECK_EQ(errno, EAGAIN);
}

struct sockaddr_in own_address(int descriptor)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    MUST(system_getsockname(descriptor, (struct sockaddr *)&address, &size));
    return address;
}

int64_t write_now(int descriptor, const void *data, size_t size)
{
    ssize_t written = system_send(descriptor, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return written < 0 ? -errno : written;
}

void write_all(int descriptor, const void *data, size_t size)
{
    const char *rest = data;
    while (size > 0) {
        int64_t written = write_now(descriptor, rest, size);
        if (written == -EAGAIN) {
            system_await(descriptor, false);
            continue;
        }
        if (written < 0)
            FAIL("writing to the peer failed: %s", strerror((int)-written));
        rest += written;
        size -= (size_t)written;
    }
}

void write_urgent(int descriptor, char byte)
{
    CHECK_EQ(MUST(system_send(descriptor, &byte, 1, MSG_OOB)), 1);
}

int64_t read_now(int descriptor, void *buffer, size_t size)
{
    ssize_t received = system_recv(descriptor, buffer, size, MSG_DONTWAIT);
    return received < 0 ? -errno : received;
}

size_t read_some(int descriptor, void *buffer, size_t size)
{
    int64_t received;
    while ((received = read_now(descriptor, buffer, size)) == -EAGAIN)
        await_input(descriptor);
    if (received < 0)
        FAIL("reading from the peer failed: %s", strerror((int)-received));
    return (size_t)received;
}

void end_stream(int descriptor)
{
    MUST(system_shutdown(descriptor, SHUT_WR));
}

void hang_up(int descriptor)
{
    MUST(system_close(descriptor));
}

void reset(int descriptor)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    MUST(system_setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    hang_up(descriptor);
}

static size_t fill_once(int descriptor)
{
    char zeros[4096] = {0};
    size_t total = 0;
    int64_t written = 0;
    /* Single bytes at the end: the kernel may refuse a large write while it still takes a small one. */
    for (size_t size = sizeof zeros; size > 0; size = size > 1 ? 1 : 0)
        while ((written = write_now(descriptor, zeros, size)) > 0)
            total += (size_t)written;
    CHECK_EQ(written, -EAGAIN);
    return total;
}

size_t fill(int descriptor)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    size_t total = fill_once(descriptor), more;
    MUST(system_getsockname(descriptor, (struct sockaddr *)&address, &size));
    if (address.ss_family == AF_UNIX)
        return total;
    /* Twice the usual delay of an acknowledgement, because a busy machine delays it more. */
    for (int fruitless = 0; fruitless<2; fruitless = more> 0 ? 0 : fruitless + 1) {
        sleep_ms(60);
        total += more = fill_once(descriptor);
    }
    return total;
}

size_t drain(int descriptor)
{
    char buffer[65536];
    size_t total = 0;
    int64_t size;
    while ((size = read_now(descriptor, buffer, sizeof buffer)) > 0)
        total += (size_t)size;
    return total;
}

void limit_send_buffer(int descriptor, int size)
{
    MUST(system_setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
}

/* ------------------------------------------------------------------------------------------- descriptors, files --- */

bool is_open(int descriptor)
{
    return system_fcntl(descriptor, F_GETFD, 0) >= 0;
}

bool is_fit_for_a_loop(int descriptor)
{
    return (MUST(system_fcntl(descriptor, F_GETFL, 0)) & O_NONBLOCK) &&
           (MUST(system_fcntl(descriptor, F_GETFD, 0)) & FD_CLOEXEC);
}

int open_descriptors(void)
{
    return system_open_descriptors();
}

int file_with(const void *data, size_t size)
{
    int file = MUST(system_memfd_create("test"));
    CHECK_EQ(MUST(system_write(file, data, size)), size);
    return file;
}

uint64_t file_position(int file)
{
    return (uint64_t)MUST(system_lseek(file, 0, SEEK_CUR));
}

void close_file(int file)
{
    MUST(system_close(file));
}

/* --------------------------------------------------------------------------------------------------------- time --- */

uint64_t clock_ns(void)
{
    return test_machine ? mr_machine_now_ns(test_machine) : mr_clock_now_ns();
}

void sleep_us(unsigned us)
{
    if (test_machine) {
        mr_machine_sleep(test_machine, us * UINT64_C(1000));
        return;
    }
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    while (nanosleep(&left, &left) < 0)
        ;
}

unsigned system_slack_ms(void)
{
    return 1;
}

void sleep_ms(unsigned ms)
{
    sleep_us(ms * 1000);
}

/* ------------------------------------------------------------------------------------------------------ process --- */

void start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    if (test_machine)
        mr_machine_keep_real_time(test_machine);
    CHECK_EQ(pthread_create(thread, NULL, run, argument), 0);
}

void set_variable(const char *name, const char *value)
{
    MUST(value ? setenv(name, value, 1) : unsetenv(name));
}

void let_broken_pipes_kill(void)
{
    signal(SIGPIPE, SIG_DFL);
}
