/* sockets.c: descriptors and bytes for the conformance tests; knows nothing of loops. */
#include "conform.h"

#include <dirent.h>
#include <fcntl.h>
#include <time.h>

void unix_pair(int descriptors[2])
{
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, descriptors));
}

int tcp_socket(void)
{
    return MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int tcp_listener(int backlog, struct sockaddr_in *address)
{
    int listener = tcp_socket();
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (struct sockaddr *)address, sizeof *address));
    MUST(listen(listener, backlog));
    MUST(getsockname(listener, (struct sockaddr *)address, &size));
    return listener;
}

void tcp_pair(int descriptors[2])
{
    struct sockaddr_in address;
    int listener = tcp_listener(1, &address);
    set_blocking(listener);
    descriptors[1] = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(connect(descriptors[1], (struct sockaddr *)&address, sizeof address));
    descriptors[0] = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    MUST(fcntl(descriptors[1], F_SETFL, O_NONBLOCK));
    close(listener);
}

struct sockaddr_in dead_address(void)
{
    struct sockaddr_in address;
    close(tcp_listener(1, &address));
    return address;
}

void set_blocking(int descriptor)
{
    MUST(fcntl(descriptor, F_SETFL, 0));
}

void reset(int descriptor)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    MUST(setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    MUST(close(descriptor));
}

void write_all(int descriptor, const void *data, size_t size)
{
    const char *rest = data;
    while (size > 0) {
        ssize_t written = MUST(send(descriptor, rest, size, MSG_NOSIGNAL));
        rest += written;
        size -= (size_t)written;
    }
}

static size_t fill_once(int descriptor)
{
    char zeros[4096] = {0};
    size_t total = 0;
    ssize_t written;
    /* Single bytes at the end: the kernel may refuse a large write while it still takes a small one. */
    for (size_t size = sizeof zeros; size > 0; size = size > 1 ? 1 : 0)
        while ((written = send(descriptor, zeros, size, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
            total += (size_t)written;
    CHECK_EQ(errno, EAGAIN);
    return total;
}

size_t fill(int descriptor)
{
    int domain;
    socklen_t size = sizeof domain;
    size_t total = fill_once(descriptor), more;
    MUST(getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size));
    if (domain == AF_UNIX)
        return total;
    do {
        sleep_ms(60); /* longer than an acknowledgement may be delayed */
        total += more = fill_once(descriptor);
    } while (more > 0);
    return total;
}

size_t drain(int descriptor)
{
    char buffer[65536];
    size_t total = 0;
    ssize_t size;
    while ((size = recv(descriptor, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
        total += (size_t)size;
    return total;
}

bool is_open(int descriptor)
{
    return fcntl(descriptor, F_GETFD) >= 0;
}

int open_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

void sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) < 0)
        ;
}

void fill_pattern(void *buffer, uint64_t position, size_t size)
{
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < size; i++)
        bytes[i] = pattern_at(position + i);
}

void check_pattern(const void *buffer, uint64_t position, size_t size)
{
    const unsigned char *bytes = buffer;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != pattern_at(position + i))
            FAIL("byte %llu of the stream is 0x%02x instead of 0x%02x", (unsigned long long)(position + i), bytes[i],
                 pattern_at(position + i));
}
