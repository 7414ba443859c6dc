/* http_socket.c - from the kernel, by socket options and ioctl. */
#define _GNU_SOURCE /* struct tcp_info */
#include "http_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/sockios.h>
#endif

int64_t http_socket_queued(int descriptor)
{
    int count = 0;
#if defined SIOCOUTQ /* Linux */
    return ioctl(descriptor, SIOCOUTQ, &count) == 0 ? count : 0;
#elif defined FIONWRITE /* FreeBSD, NetBSD */
    return ioctl(descriptor, FIONWRITE, &count) == 0 ? count : 0;
#elif defined SO_NWRITE /* macOS */
    socklen_t size = sizeof count;
    return getsockopt(descriptor, SOL_SOCKET, SO_NWRITE, &count, &size) == 0 ? count : 0;
#else
    (void)descriptor;
    return count;
#endif
}

int64_t http_socket_arrived(int descriptor)
{
    int count = 0;
    return ioctl(descriptor, FIONREAD, &count) == 0 ? count : 0;
}

#ifdef __linux__
int64_t http_socket_quiet_millis(int descriptor)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return -1;
    return info.tcpi_last_data_recv < info.tcpi_last_data_sent ? info.tcpi_last_data_recv : info.tcpi_last_data_sent;
}

/* Packets with fewer hops left are dropped (RFC 5082). A socket for IPv6 gets packets of IPv4, too. */
static int set_least_hops(int descriptor, int hops)
{
    int of_ipv4 = setsockopt(descriptor, IPPROTO_IP, IP_MINTTL, &hops, sizeof hops);
    int of_ipv6 = setsockopt(descriptor, IPPROTO_IPV6, IPV6_MINHOPCOUNT, &hops, sizeof hops);
    return of_ipv4 == 0 || of_ipv6 == 0 ? 0 : -1;
}

/* A segment that ends a handshake is not looked at in this way: it belongs to no socket yet. A filter
 * (SO_ATTACH_FILTER) would tell first segments from others, but kernels of 2026 let only privileged processes have one
 * on TCP. */
int http_socket_turn_away(int descriptor)
{
    enum { MORE_THAN_USUAL = 255 }; /* systems send with 64 or 128 */
    return set_least_hops(descriptor, MORE_THAN_USUAL);
}

void http_socket_welcome(int descriptor)
{
    set_least_hops(descriptor, 0);
}
#else
int64_t http_socket_quiet_millis(int descriptor)
{
    (void)descriptor;
    return -1;
}

int http_socket_turn_away(int descriptor)
{
    (void)descriptor;
    errno = EOPNOTSUPP;
    return -1;
}

void http_socket_welcome(int descriptor)
{
    (void)descriptor;
}
#endif

int http_socket_pending(int descriptor)
{
    struct pollfd ask = {.fd = descriptor, .events = POLLIN};
    return poll(&ask, 1, 0) > 0 && (ask.revents & POLLIN) != 0;
}

int http_socket_is_over(int descriptor)
{
    struct pollfd ask = {.fd = descriptor};
    return poll(&ask, 1, 0) > 0 && (ask.revents & (POLLHUP | POLLERR)) != 0;
}

static int option_of(int descriptor, int option)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

int http_socket_kind(int descriptor)
{
    int type = option_of(descriptor, SO_TYPE);
    if (type < 0)
        return errno == EBADF ? HTTP_SOCKET_CLOSED : HTTP_SOCKET_NONE;
    if (type != SOCK_STREAM)
        return HTTP_SOCKET_NO_STREAM;
    return option_of(descriptor, SO_ACCEPTCONN) > 0 ? HTTP_SOCKET_LISTENS : HTTP_SOCKET_NOT_LISTENING;
}

int http_socket_duplicate(int descriptor)
{
    return dup(descriptor);
}
