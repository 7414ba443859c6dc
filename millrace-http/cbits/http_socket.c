#define _GNU_SOURCE /* POLLRDHUP */
#include "http_socket.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

int64_t http_socket_queued(int descriptor)
{
    int count = 0;
    return ioctl(descriptor, SIOCOUTQ, &count) == 0 ? count : 0;
}

int http_socket_ended(int descriptor)
{
    struct pollfd ask = {.fd = descriptor, .events = POLLRDHUP};
    return poll(&ask, 1, 0) > 0 && (ask.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}
