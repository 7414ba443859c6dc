/* What Windows does not say of a connection is how much of it is on its way, and since when it is quiet. */
#include "http_socket.h"

#include <errno.h>
#include <winsock2.h>

static SOCKET socket_of(int descriptor)
{
    return (SOCKET)(unsigned)descriptor;
}

/* Which of these events have happened. Asks and does not wait. */
static int events_now(int descriptor, short events)
{
    WSAPOLLFD ask = {.fd = socket_of(descriptor), .events = events};
    return WSAPoll(&ask, 1, 0) > 0 ? ask.revents : 0;
}

int64_t http_socket_queued(int descriptor)
{
    (void)descriptor;
    return 0;
}

int64_t http_socket_arrived(int descriptor)
{
    u_long count = 0;
    return ioctlsocket(socket_of(descriptor), FIONREAD, &count) == 0 ? (int64_t)count : 0;
}

int64_t http_socket_quiet_millis(int descriptor)
{
    (void)descriptor;
    return -1;
}

int http_socket_pending(int descriptor)
{
    return (events_now(descriptor, POLLRDNORM) & POLLRDNORM) != 0;
}

int http_socket_is_over(int descriptor)
{
    return (events_now(descriptor, 0) & POLLERR) != 0;
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

/* Nothing is inherited by number. */
int http_socket_kind(int descriptor)
{
    (void)descriptor;
    return HTTP_SOCKET_CLOSED;
}

int http_socket_duplicate(int descriptor)
{
    WSAPROTOCOL_INFOW info;
    if (WSADuplicateSocketW(socket_of(descriptor), GetCurrentProcessId(), &info) == 0) {
        SOCKET copy = WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &info, 0,
                                 WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
        if (copy != INVALID_SOCKET)
            return (int)copy;
    }
    errno = WSAGetLastError() == WSAEMFILE ? EMFILE : EBADF;
    return -1;
}
