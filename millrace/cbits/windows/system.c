/*
 * system.c: see system.h. Winsock's calls.
 *
 * A socket is a handle, 64 bits wide, of which 32 matter (Windows on Windows 64 relies on it); an int carries them.
 * WSAGetLastError is GetLastError.
 */
#include "system.h"

#include <errno.h>

static SOCKET socket_of(int descriptor)
{
    return (SOCKET)(unsigned)descriptor;
}

static int result_of(int result)
{
    if (result != SOCKET_ERROR)
        return result;
    errno = -mr_error_of_winsock(WSAGetLastError());
    return -1;
}

/* Winsock refuses every call until it is started in this process. Others may start it too: it counts the starts. */
static BOOL CALLBACK start_winsock(INIT_ONCE *once, void *error, void **context)
{
    WSADATA data;
    (void)once, (void)context;
    *(int *)error = WSAStartup(MAKEWORD(2, 2), &data);
    return *(int *)error == 0;
}

int mrh_socket(int domain, int type, int protocol)
{
    static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
    int error = 0;
    if (!InitOnceExecuteOnce(&once, start_winsock, &error, NULL)) {
        errno = -mr_error_of_winsock(error);
        return -1;
    }
    SOCKET created = WSASocketW(domain, type, protocol, NULL, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (created == INVALID_SOCKET)
        return result_of(SOCKET_ERROR);
    int descriptor = (int)created;
    if (mrh_set_socket_flags(descriptor) < 0) {
        closesocket(created);
        return -1;
    }
    return descriptor;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): where there are pairs of sockets, they are written there */
int mrh_socketpair(int domain, int type, int protocol, int pair[2])
{
    (void)domain, (void)type, (void)protocol, (void)pair;
    errno = EOPNOTSUPP;
    return -1;
}

int mrh_set_socket_flags(int descriptor)
{
    u_long on = 1;
    if (!SetHandleInformation((HANDLE)socket_of(descriptor), HANDLE_FLAG_INHERIT, 0)) {
        errno = EBADF;
        return -1;
    }
    return result_of(ioctlsocket(socket_of(descriptor), (long)FIONBIO, &on));
}

int mrh_duplicate(int descriptor)
{
    WSAPROTOCOL_INFOW what;
    if (WSADuplicateSocketW(socket_of(descriptor), GetCurrentProcessId(), &what))
        return result_of(SOCKET_ERROR);
    SOCKET copy = WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &what, 0,
                             WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    return copy == INVALID_SOCKET ? result_of(SOCKET_ERROR) : (int)copy;
}

int mrh_bind(int descriptor, const struct sockaddr *address, socklen_t length)
{
    return result_of(bind(socket_of(descriptor), address, length));
}

int mrh_listen(int descriptor, int backlog)
{
    return result_of(listen(socket_of(descriptor), backlog));
}

int mrh_getsockname(int descriptor, struct sockaddr *address, socklen_t *length)
{
    return result_of(getsockname(socket_of(descriptor), address, length));
}

int mrh_getpeername(int descriptor, struct sockaddr *address, socklen_t *length)
{
    return result_of(getpeername(socket_of(descriptor), address, length));
}

int mrh_getsockopt(int descriptor, int level, int name, void *value, socklen_t *length)
{
    return result_of(getsockopt(socket_of(descriptor), level, name, value, length));
}

int mrh_setsockopt(int descriptor, int level, int name, const void *value, socklen_t length)
{
    return result_of(setsockopt(socket_of(descriptor), level, name, value, length));
}

int mrh_linger_seconds(int descriptor)
{
    struct linger linger = {0};
    socklen_t size = sizeof linger;
    if (mrh_getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, &size) < 0)
        return -1;
    return linger.l_onoff ? linger.l_linger : 0;
}

int mrh_set_linger_seconds(int descriptor, int seconds)
{
    struct linger linger = {.l_onoff = seconds != 0, .l_linger = (u_short)seconds};
    return mrh_setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

int mrh_ended(int descriptor)
{
    WSAPOLLFD ask = {.fd = socket_of(descriptor), .events = POLLRDNORM};
    return WSAPoll(&ask, 1, 0) > 0 && (ask.revents & (POLLHUP | POLLERR)) != 0;
}

int mrh_has_error(int descriptor)
{
    (void)descriptor;
    return 0; /* there are no queues of errors */
}

int64_t mrh_send_to(int descriptor, const void *bytes, size_t size, const struct sockaddr *address, socklen_t length)
{
    return result_of(sendto(socket_of(descriptor), bytes, (int)size, 0, address, length));
}

int64_t mrh_receive_from(int descriptor, void *buffer, size_t size, struct sockaddr *address, socklen_t *length)
{
    int count = recvfrom(socket_of(descriptor), buffer, (int)size, 0, address, length);
    if (count >= 0 && address->sa_family == AF_UNSPEC) /* on a connection it returns no sender */
        getpeername(socket_of(descriptor), address, length);
    return result_of(count);
}

int64_t mrh_send_descriptor(int descriptor, int passed)
{
    (void)descriptor, (void)passed;
    errno = EOPNOTSUPP;
    return -1;
}

int64_t mrh_receive_descriptor(int descriptor)
{
    (void)descriptor;
    errno = EOPNOTSUPP;
    return -1;
}

int mrh_close(int descriptor)
{
    HANDLE handle = (HANDLE)socket_of(descriptor);
    if (GetFileType(handle) != FILE_TYPE_DISK)
        return result_of(closesocket(socket_of(descriptor)));
    return result_of(CloseHandle(handle) ? 0 : SOCKET_ERROR);
}

void mrh_prepare_thread_ends(void)
{
    /* nothing is loaded for it */
}

void mrh_count_helpers(int64_t counts[6])
{
    for (int i = 0; i < 6; i++)
        counts[i] = 0;
}

void mrh_stop_helpers(void)
{
    /* there are none */
}

int mrh_watch_forks(void (*in_child)(void))
{
    (void)in_child; /* there are none */
    return 0;
}
