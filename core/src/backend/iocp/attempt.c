/* attempt.c: tries an operation once, without blocking, on Windows. */
#include "attempt.h"
#include "port.h"
#include "start.h"

static int64_t result_or_error(int64_t result)
{
    return result >= 0 ? result : mr_port_last_error();
}

static bool set_socket_flags(SOCKET number)
{
    return ioctlsocket(number, FIONBIO, &(u_long){1}) == 0 &&
           SetHandleInformation((HANDLE)number, HANDLE_FLAG_INHERIT, 0);
}

int64_t mr_port_set_flags_or_close(SOCKET number)
{
    if (set_socket_flags(number))
        return (int64_t)number;
    int error = mr_port_last_error();
    closesocket(number);
    return error;
}

int mr_port_of_accept(int error)
{
    return error == -ECONNRESET || error == -ENOTCONN ? -ECONNABORTED : error;
}

static int64_t attempt_accept(mr_slot *slot)
{
    mr_address *address = slot->request.buffer;
    if (address)
        address->length = sizeof address->storage;
    SOCKET accepted = accept(mr_port_socket_of(slot), address ? (struct sockaddr *)&address->storage : NULL,
                             address ? &address->length : NULL);
    return accepted == INVALID_SOCKET ? mr_port_of_accept(mr_port_last_error()) : mr_port_set_flags_or_close(accepted);
}

/* A datagram is truncated to the buffer. Winsock reports that as an error. */
static int64_t received_or_error(int64_t result, uint64_t capacity)
{
    return result < 0 && WSAGetLastError() == WSAEMSGSIZE ? (int64_t)capacity : result_or_error(result);
}

static uint64_t capacity_of(const WSABUF *elements, DWORD count)
{
    uint64_t capacity = 0;
    for (DWORD i = 0; i < count; i++)
        capacity += elements[i].len;
    return capacity;
}

static int64_t attempt_vector(mr_slot *slot)
{
    WSABUF elements[MR_VECTOR_MAX];
    DWORD transferred = 0, flags = 0, count = mr_port_copy_elements(elements, &slot->request);
    int failed = slot->request.kind == MR_RECV_VECTOR
                     ? WSARecv(mr_port_socket_of(slot), elements, count, &transferred, &flags, NULL, NULL)
                     : WSASend(mr_port_socket_of(slot), elements, count, &transferred, 0, NULL, NULL);
    return failed ? received_or_error(-1, capacity_of(elements, count)) : (int64_t)transferred;
}

static int64_t attempt_send_file(mr_slot *slot)
{
    WSABUF bytes;
    void *view = NULL;
    int64_t result = mr_port_bytes_of_file(&slot->request);
    if (result > 0)
        result = mr_port_map_file(&slot->request, &view, &bytes);
    if (view)
        result = result_or_error(send(mr_port_socket_of(slot), bytes.buf, (int)bytes.len, 0));
    mr_port_unmap_file(&view);
    return result;
}

/* The lowest bit keeps the completion out of the file's port, if it has one. */
static int64_t attempt_on_file(mr_slot *slot)
{
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
    OVERLAPPED overlapped = {.hEvent = (HANDLE)((uintptr_t)event | 1)};
    DWORD transferred = 0;
    if (!event)
        return mr_port_last_error();
    int64_t result = mr_port_begin_on_file(slot, &overlapped);
    if (result == 0)
        result = GetOverlappedResult(mr_port_file_of(slot), &overlapped, &transferred, TRUE) ? (int64_t)transferred
                                                                                             : mr_port_last_error();
    CloseHandle(event);
    return mr_port_with_end(slot->request.kind, result);
}

static int64_t poll_once(mr_slot *slot)
{
    WSAPOLLFD entry = {.fd = mr_port_socket_of(slot),
                       .events = slot->request.kind == MR_WAIT_READABLE ? POLLRDNORM : POLLWRNORM};
    int ready = WSAPoll(&entry, 1, 0);
    if (ready < 0)
        return mr_port_last_error();
    if (entry.revents & POLLNVAL)
        return -EBADF;
    return ready > 0 ? 0 : -EAGAIN;
}

static int64_t attempt_shutdown(mr_slot *slot)
{
    return shutdown(mr_port_socket_of(slot), (int)slot->request.length) == 0 ? 0 : mr_port_last_error();
}

static int64_t attempt_connect(mr_slot *slot)
{
    if (connect(mr_port_socket_of(slot), slot->request.buffer, (int)slot->request.length) == 0)
        return 0;
    return mr_port_last_error();
}

int64_t mr_port_attempt(mr_loop *loop, mr_slot *slot)
{
    (void)loop;
    WSABUF whole = mr_port_whole_buffer(&slot->request);
    switch (slot->request.kind) {
    case MR_ACCEPT:
        return attempt_accept(slot);
    case MR_CONNECT:
        return attempt_connect(slot);
    case MR_RECV:
        return mr_port_with_end(
            MR_RECV, received_or_error(recv(mr_port_socket_of(slot), whole.buf, (int)whole.len, 0), whole.len));
    case MR_SEND:
        return result_or_error(send(mr_port_socket_of(slot), whole.buf, (int)whole.len, 0));
    case MR_RECV_VECTOR:
    case MR_SEND_VECTOR:
        return mr_port_with_end(slot->request.kind, attempt_vector(slot));
    case MR_SEND_FILE:
        return attempt_send_file(slot);
    case MR_WAIT_READABLE:
    case MR_WAIT_WRITABLE:
        return poll_once(slot);
    case MR_SHUTDOWN:
        return attempt_shutdown(slot);
    case MR_READ_FILE:
    case MR_WRITE_FILE:
        return attempt_on_file(slot);
    case MR_SYNC_FILE:
        return mr_port_sync_file(slot);
    default:
        return -EINVAL;
    }
}
