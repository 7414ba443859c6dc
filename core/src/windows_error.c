/*
 * windows_error.c: see windows_error.h. Operations end with an NTSTATUS; calls fail with a Winsock or Win32 error.
 *
 * What Winsock calls ECONNABORTED (the connection was given up on this side) is ECONNRESET on POSIX, where only accept
 * knows the former.
 */
#define WIN32_NO_STATUS /* winnt.h has a few of the numbers of ntstatus.h */
#include "windows_error.h"

#include <errno.h>
#include <stddef.h>
#include <winsock2.h>
#undef WIN32_NO_STATUS
#include <ntstatus.h>

typedef struct translation {
    uint32_t theirs;
    int ours;
} translation;

static const translation of_status[] = {
    {STATUS_INVALID_HANDLE, EBADF},
    {STATUS_OBJECT_TYPE_MISMATCH, EBADF}, /* no socket: it is not told apart from a number that was closed */
    {STATUS_INVALID_PARAMETER, EINVAL},
    {STATUS_INVALID_DEVICE_REQUEST, EOPNOTSUPP},
    {STATUS_ACCESS_DENIED, EACCES},
    {STATUS_NO_MEMORY, ENOMEM},
    {STATUS_COMMITMENT_LIMIT, ENOMEM},
    {STATUS_WORKING_SET_QUOTA, ENOBUFS},
    {STATUS_PAGEFILE_QUOTA, ENOBUFS},
    {STATUS_QUOTA_EXCEEDED, ENOBUFS},
    {STATUS_INSUFFICIENT_RESOURCES, ENOBUFS},
    {STATUS_REMOTE_RESOURCES, ENOBUFS},
    {STATUS_TOO_MANY_OPENED_FILES, EMFILE},
    {STATUS_CANCELLED, ECANCELED},
    {STATUS_REQUEST_ABORTED, ECANCELED},
    {STATUS_IO_TIMEOUT, ETIMEDOUT},
    {STATUS_CONNECTION_DISCONNECTED, ECONNRESET},
    {STATUS_CONNECTION_RESET, ECONNRESET},
    {STATUS_CONNECTION_ABORTED, ECONNRESET},
    {STATUS_REMOTE_DISCONNECT, ECONNRESET},
    {STATUS_LOCAL_DISCONNECT, ECONNRESET},
    {STATUS_CONNECTION_REFUSED, ECONNREFUSED},
    {STATUS_PORT_UNREACHABLE, ECONNREFUSED},
    {STATUS_GRACEFUL_DISCONNECT, EPIPE},
    {STATUS_PIPE_DISCONNECTED, EPIPE},
    {STATUS_PIPE_BROKEN, EPIPE},
    {STATUS_END_OF_FILE, EPIPE}, /* a reader's alone; the backend knows what it means to it */
    {STATUS_DISK_FULL, ENOSPC},
    {STATUS_ADDRESS_ALREADY_EXISTS, EADDRINUSE},
    {STATUS_ADDRESS_ALREADY_ASSOCIATED, EADDRINUSE},
    {STATUS_CONFLICTING_ADDRESSES, EADDRINUSE},
    {STATUS_TOO_MANY_ADDRESSES, EADDRNOTAVAIL},
    {STATUS_INVALID_ADDRESS_COMPONENT, EADDRNOTAVAIL},
    {STATUS_CONNECTION_ACTIVE, EISCONN},
    {STATUS_CONNECTION_INVALID, ENOTCONN},
    {STATUS_INVALID_CONNECTION, ENOTCONN},
    {STATUS_NETWORK_UNREACHABLE, ENETUNREACH},
    {STATUS_HOST_UNREACHABLE, EHOSTUNREACH},
    {STATUS_BAD_NETWORK_PATH, EHOSTUNREACH},
    {STATUS_PROTOCOL_UNREACHABLE, EPROTO},
    {STATUS_HOPLIMIT_EXCEEDED, EHOSTUNREACH},
};

static const translation of_winsock[] = {
    {WSAEWOULDBLOCK, EAGAIN},
    {WSAEINPROGRESS, EINPROGRESS},
    {WSAEALREADY, EALREADY},
    {WSAEINTR, EINTR},
    {WSAEBADF, EBADF},
    {WSAEACCES, EACCES},
    {WSAEFAULT, EFAULT},
    {WSAEINVAL, EINVAL},
    {WSAEMFILE, EMFILE},
    {WSAENOTSOCK, EBADF}, /* likewise */
    {WSAEMSGSIZE, EMSGSIZE},
    {WSAEPROTOTYPE, EPROTOTYPE},
    {WSAENOPROTOOPT, ENOPROTOOPT},
    {WSAEOPNOTSUPP, EOPNOTSUPP},
    {WSAEAFNOSUPPORT, EAFNOSUPPORT},
    {WSAEADDRINUSE, EADDRINUSE},
    {WSAEADDRNOTAVAIL, EADDRNOTAVAIL},
    {WSAENETDOWN, ENETDOWN},
    {WSAENETUNREACH, ENETUNREACH},
    {WSAEHOSTUNREACH, EHOSTUNREACH},
    {WSAENETRESET, ENETRESET},
    {WSAECONNABORTED, ECONNRESET},
    {WSAECONNRESET, ECONNRESET},
    {WSAEDISCON, ECONNRESET},
    {WSAENOBUFS, ENOBUFS},
    {WSAEISCONN, EISCONN},
    {WSAENOTCONN, ENOTCONN},
    {WSAESHUTDOWN, EPIPE}, /* of a send; the backend knows what it means to a receive */
    {WSAETIMEDOUT, ETIMEDOUT},
    {WSAECONNREFUSED, ECONNREFUSED},
    {WSA_OPERATION_ABORTED, ECANCELED},
    {ERROR_INVALID_HANDLE, EBADF},
    {ERROR_INVALID_PARAMETER, EINVAL},
    {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
    {ERROR_ACCESS_DENIED, EACCES},
    {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
    {ERROR_NO_SYSTEM_RESOURCES, ENOBUFS},
    {ERROR_HANDLE_EOF, EPIPE}, /* a reader's alone */
    {ERROR_DISK_FULL, ENOSPC},
    {ERROR_NETNAME_DELETED, ECONNRESET}, /* what a reset becomes on its way through Win32 */
    {ERROR_CONNECTION_REFUSED, ECONNREFUSED},
    {ERROR_SEM_TIMEOUT, ETIMEDOUT},
};

static int translate(const translation *table, size_t count, uint32_t theirs)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].theirs == theirs)
            return -table[i].ours;
    return -EIO;
}

int mr_error_of_status(int32_t ntstatus)
{
    return translate(of_status, sizeof of_status / sizeof *of_status, (uint32_t)ntstatus);
}

int mr_error_of_winsock(int error)
{
    return translate(of_winsock, sizeof of_winsock / sizeof *of_winsock, (uint32_t)error);
}
