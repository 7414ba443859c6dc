/*
 * iocp.c: Windows' completion ports.
 *
 * Every operation has an OVERLAPPED of its own, which CancelIoEx names: cancelling one leaves its neighbours alone.
 * Its record lives until its own completion has been dequeued, whether it succeeded, failed or was cancelled. Nothing
 * is completed at once (no FILE_SKIP_COMPLETION_PORT_ON_SUCCESS), so there is one way on which results come.
 *
 * A socket belongs to the first port that it was associated with, for ever. An operation that another loop starts on it
 * must not complete there: it signals an event, for which the system's thread pool waits, to post it to the right port.
 * That loop need not be polled, nor exist any more, for the others to go on.
 *
 * Windows knows no readiness but inside its socket driver: waiting for it asks the driver (IOCTL_AFD_POLL), as select
 * does. That request is not in the documentation; libuv, mio and wepoll rely on it as well.
 */
#define WIN32_NO_STATUS /* winnt.h has a few of the numbers of ntstatus.h */
#include "../backend.h"
#include "../windows_error.h"

#include <errno.h>
#include <mswsock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#undef WIN32_NO_STATUS
#include <ntstatus.h>
#include <winternl.h>

enum { BATCH = 64 };

/* A send completes when all of it has been taken, never a part. So it is given no more than this at a time. */
enum { BYTES_PER_SEND = 1 << 16 };

typedef struct port_state {
    HANDLE port;
    HANDLE driver; /* for readiness of sockets, also of such as must not be associated with our port */
    /* What the sleeper dequeued: it may not touch operations, so the next poll takes them. */
    OVERLAPPED_ENTRY caught[BATCH];
    atomic_uint caught_count;
} port_state;

/* The socket driver's request for readiness; layout and bits as in wepoll's documentation of it. */
typedef struct driver_poll {
    LARGE_INTEGER timeout;
    ULONG count;
    ULONG is_exclusive;
    HANDLE socket;
    ULONG events;
    NTSTATUS status;
} driver_poll;

enum {
    IOCTL_DRIVER_POLL = 0x00012024,
    DRIVER_RECEIVE = 0x01,
    DRIVER_RECEIVE_EXPEDITED = 0x02,
    DRIVER_SEND = 0x04,
    DRIVER_DISCONNECT = 0x08,
    DRIVER_ABORT = 0x10,
    DRIVER_LOCAL_CLOSE = 0x20,
    DRIVER_ACCEPT = 0x80,
    DRIVER_CONNECT_FAIL = 0x100,
};

/* AcceptEx wants 16 bytes more than an address takes. */
enum { ADDRESS_SIZE = sizeof(struct sockaddr_storage) + 16 };

/* What Windows works on while an operation is in flight. */
typedef struct operation {
    OVERLAPPED overlapped; /* first: a dequeued OVERLAPPED is cast back to its operation */
    mr_loop *loop;
    mr_slot *slot;
    HANDLE target;     /* what CancelIoEx needs besides */
    HANDLE event;      /* on a socket of another port: signalled by the completion, and ... */
    HANDLE event_wait; /* ... waited for by the thread pool */
    bool is_shut;      /* cancelled because its direction was shut down */
    SOCKET accepted;   /* ACCEPT: the socket that the connection becomes */
    void *view;        /* SEND_FILE: the part of the file that is being sent */
    union {
        char addresses[2 * ADDRESS_SIZE];
        driver_poll poll;
    };
    WSABUF elements[]; /* of vectors */
} operation;

static LPFN_CONNECTEX connect_ex;
static LPFN_ACCEPTEX accept_ex;

static port_state *state_of(const mr_loop *loop)
{
    return loop->backend_state;
}

static operation *operation_of(const mr_slot *slot)
{
    return slot->backend_memory;
}

/* A receive that brings no buffer waits for bytes and then is attempted with one that is lent. */
static bool is_lent(const mr_slot *slot)
{
    return slot->request.flags & MR_BORROW;
}

static bool asks_for_readiness(const mr_slot *slot)
{
    return mr_is_wait(slot->request.kind) || is_lent(slot);
}

static SOCKET socket_of(const mr_slot *slot)
{
    return (SOCKET)(unsigned)mr_slot_number(slot);
}

static int last_error(void)
{
    return mr_error_of_winsock(WSAGetLastError());
}

/* ---------------------------------------------------------------------------------------------------- starting --- */

/* Finds out whose port the socket belongs to: ours, unless another loop was faster. */
static int associate(mr_loop *loop, mr_slot *slot)
{
    mr_descriptor *descriptor = slot->descriptor;
    if (descriptor->is_watched || descriptor->is_others)
        return 0;
    mr_count(&loop->counters.system_calls, 1);
    if (CreateIoCompletionPort((HANDLE)socket_of(slot), state_of(loop)->port, 0, 0))
        descriptor->is_watched = true;
    else if (GetLastError() == ERROR_INVALID_PARAMETER)
        descriptor->is_others = true;
    else
        return last_error();
    return 0;
}

static void CALLBACK post_completion(void *argument, BOOLEAN timed_out)
{
    operation *op = argument;
    (void)timed_out;
    PostQueuedCompletionStatus(state_of(op->loop)->port, 0, 0, &op->overlapped);
}

static void close_event(operation *op)
{
    if (op->event_wait)
        UnregisterWaitEx(op->event_wait, NULL);
    if (op->event)
        CloseHandle(op->event);
    op->event_wait = op->event = NULL;
}

/* Has the operation signal an event; the lowest bit keeps it out of the socket's port. */
static int direct_to_event(operation *op)
{
    op->event = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (!op->event || !RegisterWaitForSingleObject(&op->event_wait, op->event, post_completion, op, INFINITE,
                                                   WT_EXECUTEINWAITTHREAD | WT_EXECUTEONLYONCE)) {
        int error = last_error();
        close_event(op);
        return error;
    }
    op->overlapped.hEvent = (HANDLE)((uintptr_t)op->event | 1);
    return 0;
}

static int family_of(SOCKET number)
{
    struct sockaddr_storage address;
    int size = sizeof address;
    return getsockname(number, (struct sockaddr *)&address, &size) == 0 ? address.ss_family : AF_UNSPEC;
}

static int outcome(BOOL succeeded)
{
    if (succeeded || WSAGetLastError() == WSA_IO_PENDING)
        return 0;
    return last_error();
}

static int start_accept(operation *op)
{
    SOCKET listener = socket_of(op->slot);
    int is_listening = 0, size = sizeof is_listening;
    if (getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, (char *)&is_listening, &size) != 0)
        return last_error();
    if (!is_listening)
        return -EINVAL;
    op->accepted =
        WSASocketW(family_of(listener), SOCK_STREAM, 0, NULL, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (op->accepted == INVALID_SOCKET)
        return last_error();
    DWORD received;
    return outcome(
        accept_ex(listener, op->accepted, op->addresses, 0, ADDRESS_SIZE, ADDRESS_SIZE, &received, &op->overlapped));
}

/* ConnectEx wants a socket that is bound, to whatever address. */
static int start_connect(operation *op)
{
    SOCKET number = socket_of(op->slot);
    const struct sockaddr *peer = op->slot->request.buffer;
    struct sockaddr_storage any = {.ss_family = (short)peer->sa_family};
    int length = (int)op->slot->request.length;
    if (family_of(number) == AF_UNSPEC && bind(number, (struct sockaddr *)&any, length) != 0)
        return last_error();
    return outcome(connect_ex(number, peer, length, NULL, 0, NULL, &op->overlapped));
}

/* A datagram that is too long for the buffer is a warning (STATUS_BUFFER_OVERFLOW): its completion comes all the same. */
static int start_receive(operation *op, WSABUF *buffers, DWORD count)
{
    DWORD flags = 0;
    int failed = WSARecv(socket_of(op->slot), buffers, count, NULL, &flags, &op->overlapped, NULL);
    return failed && WSAGetLastError() == WSAEMSGSIZE ? 0 : outcome(!failed);
}

static int start_send(operation *op, WSABUF *buffers, DWORD count)
{
    return outcome(WSASend(socket_of(op->slot), buffers, count, NULL, 0, &op->overlapped, NULL) == 0);
}

static uint64_t bytes_at_most(mr_kind kind)
{
    return mr_has_trait(kind, MR_RECEIVES) ? LONG_MAX : BYTES_PER_SEND;
}

static WSABUF whole_buffer(const mr_request *request)
{
    uint64_t limit = bytes_at_most(request->kind);
    return (WSABUF){.len = (ULONG)(request->length < limit ? request->length : limit), .buf = request->buffer};
}

/* iovec and WSABUF have the same members in another order, and of another size. Returns how many are needed. */
static DWORD copy_elements(WSABUF *elements, const mr_request *request)
{
    const struct iovec *source = request->buffer;
    uint64_t left = bytes_at_most(request->kind);
    DWORD count = 0;
    for (; count < request->length && left > 0; count++) {
        uint64_t length = source[count].iov_len < left ? source[count].iov_len : left;
        elements[count] = (WSABUF){.len = (ULONG)length, .buf = source[count].iov_base};
        left -= length;
    }
    return count;
}

static int start_wait(operation *op)
{
    ULONG events = op->slot->request.kind == MR_WAIT_WRITABLE
                       ? DRIVER_SEND | DRIVER_CONNECT_FAIL
                       : DRIVER_RECEIVE | DRIVER_RECEIVE_EXPEDITED | DRIVER_DISCONNECT | DRIVER_ACCEPT;
    op->target = state_of(op->loop)->driver;
    op->poll = (driver_poll){.timeout.QuadPart = INT64_MAX,
                             .count = 1,
                             .socket = (HANDLE)socket_of(op->slot),
                             .events = events | DRIVER_ABORT | DRIVER_LOCAL_CLOSE};
    /* An OVERLAPPED begins with an IO_STATUS_BLOCK, and its address is what the port hands back. */
    IO_STATUS_BLOCK *status = (IO_STATUS_BLOCK *)&op->overlapped;
    NTSTATUS result = NtDeviceIoControlFile(op->target, NULL, NULL, &op->overlapped, status, IOCTL_DRIVER_POLL,
                                            &op->poll, sizeof op->poll, &op->poll, sizeof op->poll);
    return NT_SUCCESS(result) ? 0 : mr_error_of_status(result);
}

/* How much of a file there is to send at most; 0 at its end. */
static int64_t bytes_of_file(const mr_request *request)
{
    LARGE_INTEGER size;
    if (!GetFileSizeEx((HANDLE)(intptr_t)request->file, &size))
        return last_error();
    uint64_t left = (uint64_t)size.QuadPart > request->offset ? (uint64_t)size.QuadPart - request->offset : 0;
    left = left < request->length ? left : request->length;
    return left < BYTES_PER_SEND ? (int64_t)left : BYTES_PER_SEND;
}

/* Maps the part of the file that a request begins with. A view leaves the file's position alone, which reading does
 * not. TransmitFile would too, but under Wine 8 it never ends when the peer goes away meanwhile. */
static int map_file(const mr_request *request, void **view, WSABUF *bytes)
{
    SYSTEM_INFO system;
    int64_t size = bytes_of_file(request);
    if (size < 0)
        return (int)size;
    GetSystemInfo(&system);
    uint64_t begin = request->offset - request->offset % system.dwAllocationGranularity;
    size_t skipped = (size_t)(request->offset - begin);
    HANDLE mapping = CreateFileMappingW((HANDLE)(intptr_t)request->file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping)
        return last_error();
    *view = MapViewOfFile(mapping, FILE_MAP_READ, (DWORD)(begin >> 32), (DWORD)begin, skipped + (size_t)size);
    int error = *view ? 0 : last_error();
    CloseHandle(mapping); /* the view keeps it */
    *bytes = (WSABUF){.len = (ULONG)size, .buf = (char *)*view + skipped};
    return error;
}

static void unmap_file(void **view)
{
    if (*view)
        UnmapViewOfFile(*view);
    *view = NULL;
}

static int start_send_file(operation *op)
{
    WSABUF bytes;
    int error = map_file(&op->slot->request, &op->view, &bytes);
    return error ? error : start_send(op, &bytes, 1);
}

static HANDLE file_of(const mr_slot *slot)
{
    return (HANDLE)socket_of(slot);
}

/* Windows would read a socket, too, as if it were a file. */
static bool is_file(HANDLE handle)
{
    return GetFileType(handle) == FILE_TYPE_DISK;
}

static int begin_on_file(const mr_slot *slot, OVERLAPPED *overlapped)
{
    const mr_request *request = &slot->request;
    DWORD size = (DWORD)mr_file_bytes(request);
    if (!is_file(file_of(slot)))
        return -ESPIPE;
    overlapped->Offset = (DWORD)request->offset;
    overlapped->OffsetHigh = (DWORD)(request->offset >> 32);
    return outcome(request->kind == MR_READ_FILE ? ReadFile(file_of(slot), request->buffer, size, NULL, overlapped)
                                                 : WriteFile(file_of(slot), request->buffer, size, NULL, overlapped));
}

/* Windows has no operation for it: the caller waits for the disk. */
static int sync_file(const mr_slot *slot)
{
    if (!is_file(file_of(slot)))
        return -EINVAL;
    return FlushFileBuffers(file_of(slot)) ? 0 : last_error();
}

/* 0 if a completion will come, or the error that prevents it. */
static int start(operation *op)
{
    const mr_request *request = &op->slot->request;
    WSABUF whole = whole_buffer(request);
    memset(&op->overlapped, 0, sizeof op->overlapped);
    op->target = (HANDLE)socket_of(op->slot);
    mr_count(&op->loop->counters.system_calls, 1);
    if (asks_for_readiness(op->slot))
        return start_wait(op);
    if (op->slot->descriptor->is_others) {
        int error = direct_to_event(op);
        if (error)
            return error;
    }
    switch (request->kind) {
    case MR_ACCEPT:
        return start_accept(op);
    case MR_CONNECT:
        return start_connect(op);
    case MR_RECV:
        return start_receive(op, &whole, 1);
    case MR_SEND:
        return start_send(op, &whole, 1);
    case MR_RECV_VECTOR:
        return start_receive(op, op->elements, copy_elements(op->elements, request));
    case MR_SEND_VECTOR:
        return start_send(op, op->elements, copy_elements(op->elements, request));
    case MR_READ_FILE:
    case MR_WRITE_FILE:
        return begin_on_file(op->slot, &op->overlapped);
    default: /* MR_SEND_FILE; nothing else reaches a backend */
        return start_send_file(op);
    }
}

/* Gives back what an operation held, but the connection that it may have accepted. */
static void clean_up(operation *op)
{
    unmap_file(&op->view);
    close_event(op);
    if (op->accepted != INVALID_SOCKET)
        closesocket(op->accepted);
    op->accepted = INVALID_SOCKET;
}

/* A receive after the receiving side was shut down is at the end of the stream, as on POSIX; a read beyond the end of a
 * file is no error either. */
static int64_t with_end(mr_kind kind, int64_t result)
{
    return result == -EPIPE && (mr_has_trait(kind, MR_RECEIVES) || kind == MR_READ_FILE) ? 0 : result;
}

/* Starts an operation until it is in flight or has ended. */
static void carry_out(mr_loop *loop, mr_slot *slot)
{
    operation *op = operation_of(slot);
    int error;
    do {
        error = start(op);
        if (!error)
            return;
        clean_up(op);
    } while (!mr_loop_settle(loop, slot, with_end(slot->request.kind, error)));
}

static operation *new_operation(mr_loop *loop, mr_slot *slot)
{
    size_t elements = mr_has_trait(slot->request.kind, MR_HAS_VECTOR) ? slot->request.length : 0;
    operation *op = calloc(1, sizeof *op + elements * sizeof *op->elements);
    if (op) {
        op->loop = loop;
        op->slot = slot;
        op->accepted = INVALID_SOCKET;
    }
    return op;
}

/* What comes before an operation is started: 0 if it is to be, or how it ends instead. Sets *is_over. */
static int64_t prepare(mr_loop *loop, mr_slot *slot, bool *is_over)
{
    int64_t result = 0;
    *is_over = true;
    if (slot->request.kind == MR_SYNC_FILE)
        return sync_file(slot);
    if (is_lent(slot) && (result = mr_loop_attempt(loop, slot)) != -EAGAIN)
        return result;
    if (!asks_for_readiness(slot) && (result = associate(loop, slot)) < 0)
        return result;
    if (slot->request.kind == MR_SEND_FILE && (result = bytes_of_file(&slot->request)) <= 0)
        return result; /* an empty view cannot be had */
    if (!slot->backend_memory && !(slot->backend_memory = new_operation(loop, slot)))
        return -ENOMEM;
    *is_over = false;
    return 0;
}

static void submit(mr_loop *loop, mr_slot *slot)
{
    bool is_over;
    int64_t result;
    do
        result = prepare(loop, slot, &is_over);
    while (is_over && !mr_loop_settle(loop, slot, result));
    if (!is_over)
        carry_out(loop, slot);
}

static void cancel(mr_loop *loop, mr_slot *slot)
{
    operation *op = operation_of(slot);
    mr_count(&loop->counters.system_calls, 1);
    CancelIoEx(op->target, &op->overlapped); /* ERROR_NOT_FOUND: its completion is in the port already */
}

/* It is cancelled, and complete() knows why. */
static void end_shut(mr_loop *loop, mr_descriptor *descriptor, int direction)
{
    for (mr_slot *slot = descriptor->first[direction]; slot; slot = slot->next) {
        if (slot->state != MR_SLOT_PENDING)
            continue;
        operation_of(slot)->is_shut = true;
        cancel(loop, slot);
    }
}

static void detach(mr_loop *loop, mr_descriptor *descriptor)
{
    (void)loop;
    descriptor->is_watched = descriptor->is_others = false;
}

static int close_descriptor(mr_loop *loop, int number)
{
    SOCKET socket = (SOCKET)(unsigned)number;
    (void)loop;
    bool is_closed = is_file((HANDLE)socket) ? CloseHandle((HANDLE)socket) : closesocket(socket) == 0;
    return is_closed ? 0 : last_error();
}

/* ------------------------------------------------------------------------------------------------- on the spot --- */

static int64_t result_or_error(int64_t result)
{
    return result >= 0 ? result : last_error();
}

static bool make_fit(SOCKET number)
{
    return ioctlsocket(number, FIONBIO, &(u_long){1}) == 0 &&
           SetHandleInformation((HANDLE)number, HANDLE_FLAG_INHERIT, 0);
}

static int64_t fit_or_error(SOCKET number)
{
    if (make_fit(number))
        return (int64_t)number;
    int error = last_error();
    closesocket(number);
    return error;
}

/* What became of a connection in the queue is no matter of the listener's. */
static int of_accept(int error)
{
    return error == -ECONNRESET || error == -ENOTCONN ? -ECONNABORTED : error;
}

static int64_t attempt_accept(mr_slot *slot)
{
    mr_address *address = slot->request.buffer;
    if (address)
        address->length = sizeof address->storage;
    SOCKET accepted = accept(socket_of(slot), address ? (struct sockaddr *)&address->storage : NULL,
                             address ? &address->length : NULL);
    return accepted == INVALID_SOCKET ? of_accept(last_error()) : fit_or_error(accepted);
}

/* What a datagram has beyond the buffer is cut off; Winsock calls that an error. */
static int64_t received_or_error(int64_t result, uint64_t room)
{
    return result < 0 && WSAGetLastError() == WSAEMSGSIZE ? (int64_t)room : result_or_error(result);
}

static uint64_t room_of(const WSABUF *elements, DWORD count)
{
    uint64_t room = 0;
    for (DWORD i = 0; i < count; i++)
        room += elements[i].len;
    return room;
}

static int64_t attempt_vector(mr_slot *slot)
{
    WSABUF elements[MR_VECTOR_MAX];
    DWORD transferred = 0, flags = 0, count = copy_elements(elements, &slot->request);
    int failed = slot->request.kind == MR_RECV_VECTOR
                     ? WSARecv(socket_of(slot), elements, count, &transferred, &flags, NULL, NULL)
                     : WSASend(socket_of(slot), elements, count, &transferred, 0, NULL, NULL);
    return failed ? received_or_error(-1, room_of(elements, count)) : (int64_t)transferred;
}

static int64_t attempt_send_file(mr_slot *slot)
{
    WSABUF bytes;
    void *view = NULL;
    int64_t result = bytes_of_file(&slot->request);
    if (result > 0)
        result = map_file(&slot->request, &view, &bytes);
    if (view)
        result = result_or_error(send(socket_of(slot), bytes.buf, (int)bytes.len, 0));
    unmap_file(&view);
    return result;
}

/* The lowest bit keeps the completion out of the file's port, if it has one. */
static int64_t attempt_on_file(mr_slot *slot)
{
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
    OVERLAPPED overlapped = {.hEvent = (HANDLE)((uintptr_t)event | 1)};
    DWORD transferred = 0;
    if (!event)
        return last_error();
    int64_t result = begin_on_file(slot, &overlapped);
    if (result == 0)
        result =
            GetOverlappedResult(file_of(slot), &overlapped, &transferred, TRUE) ? (int64_t)transferred : last_error();
    CloseHandle(event);
    return with_end(slot->request.kind, result);
}

static int64_t poll_once(mr_slot *slot)
{
    WSAPOLLFD entry = {.fd = socket_of(slot),
                       .events = slot->request.kind == MR_WAIT_READABLE ? POLLRDNORM : POLLWRNORM};
    int ready = WSAPoll(&entry, 1, 0);
    if (ready < 0)
        return last_error();
    if (entry.revents & POLLNVAL)
        return -EBADF;
    return ready > 0 ? 0 : -EAGAIN;
}

static int64_t attempt_shutdown(mr_slot *slot)
{
    return shutdown(socket_of(slot), (int)slot->request.length) == 0 ? 0 : last_error();
}

static int64_t attempt_connect(mr_slot *slot)
{
    if (connect(socket_of(slot), slot->request.buffer, (int)slot->request.length) == 0)
        return 0;
    return last_error();
}

static int64_t attempt(mr_loop *loop, mr_slot *slot)
{
    (void)loop;
    WSABUF whole = whole_buffer(&slot->request);
    switch (slot->request.kind) {
    case MR_ACCEPT:
        return attempt_accept(slot);
    case MR_CONNECT:
        return attempt_connect(slot);
    case MR_RECV:
        return with_end(MR_RECV, received_or_error(recv(socket_of(slot), whole.buf, (int)whole.len, 0), whole.len));
    case MR_SEND:
        return result_or_error(send(socket_of(slot), whole.buf, (int)whole.len, 0));
    case MR_RECV_VECTOR:
    case MR_SEND_VECTOR:
        return with_end(slot->request.kind, attempt_vector(slot));
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
        return sync_file(slot);
    default:
        return -EINVAL;
    }
}

/* -------------------------------------------------------------------------------------------------- completing --- */

/* Makes the socket a full one: until then it does not know its addresses and cannot be shut down. All that can fail
 * here is the connection's mishap, not the listener's. */
static int64_t finish_accept(operation *op)
{
    SOCKET listener = socket_of(op->slot), accepted = op->accepted;
    mr_address *address = op->slot->request.buffer;
    op->accepted = INVALID_SOCKET;
    if (setsockopt(accepted, SOL_SOCKET, SO_UPDATE_ACCEPT_CONTEXT, (char *)&listener, sizeof listener) != 0) {
        closesocket(accepted);
        return -ECONNABORTED;
    }
    if (address) {
        address->length = sizeof address->storage;
        if (getpeername(accepted, (struct sockaddr *)&address->storage, &address->length) != 0)
            address->length = 0;
    }
    int64_t result = fit_or_error(accepted);
    return result < 0 ? -ECONNABORTED : result;
}

static int64_t finish_connect(operation *op)
{
    SOCKET number = socket_of(op->slot);
    return setsockopt(number, SOL_SOCKET, SO_UPDATE_CONNECT_CONTEXT, NULL, 0) == 0 ? 0 : last_error();
}

/* A part of a cancelled send may have gone; then it has not been in vain. */
static bool has_gone_in_part(const operation *op)
{
    mr_kind kind = op->slot->request.kind;
    return mr_has_trait(kind, MR_SENDS) && op->overlapped.InternalHigh > 0;
}

static int64_t receive_lent(operation *op)
{
    int64_t result = mr_loop_attempt(op->loop, op->slot);
    /* Under Wine the report of a reset takes the error away, and the socket looks like one at its end. */
    return result == 0 && op->poll.events & DRIVER_ABORT ? -ECONNRESET : result;
}

static int64_t result_of(operation *op)
{
    mr_kind kind = op->slot->request.kind;
    NTSTATUS status = (NTSTATUS)op->overlapped.Internal;
    /* STATUS_BUFFER_OVERFLOW: a datagram was longer; POSIX says nothing of that either. */
    if (NT_SUCCESS(status) || status == STATUS_BUFFER_OVERFLOW ||
        (status == STATUS_CANCELLED && has_gone_in_part(op))) {
        if (kind == MR_ACCEPT)
            return finish_accept(op);
        if (kind == MR_CONNECT)
            return finish_connect(op);
        if (mr_is_wait(kind))
            return op->poll.events & DRIVER_LOCAL_CLOSE ? -EBADF : 0;
        if (is_lent(op->slot))
            return receive_lent(op);
        return (int64_t)op->overlapped.InternalHigh;
    }
    int error = mr_error_of_status(status);
    if (kind == MR_ACCEPT)
        return of_accept(error);
    if (error == -ECANCELED && op->is_shut && !op->slot->end_reason)
        return mr_has_trait(kind, MR_RECEIVES) || mr_is_wait(kind) ? 0 : -EPIPE;
    return with_end(kind, error);
}

static void complete(mr_loop *loop, const OVERLAPPED_ENTRY *entry)
{
    operation *op = (operation *)entry->lpOverlapped;
    if (!op)
        return; /* a wake */
    mr_slot *slot = op->slot;
    int64_t result = result_of(op);
    clean_up(op);
    /* Somebody else took the bytes. Its cancellation has come and gone already: begun again, it would never end. */
    if (result == -EAGAIN && slot->end_reason)
        result = -ECANCELED;
    if (result == -EAGAIN || !mr_loop_settle(loop, slot, result))
        carry_out(loop, slot);
}

static ULONG dequeue(const port_state *state, OVERLAPPED_ENTRY *entries, DWORD timeout_ms)
{
    ULONG count = 0;
    return GetQueuedCompletionStatusEx(state->port, entries, BATCH, &count, timeout_ms, FALSE) ? count : 0;
}

static void poll_port(mr_loop *loop)
{
    port_state *state = state_of(loop);
    OVERLAPPED_ENTRY entries[BATCH];
    unsigned caught = atomic_load(&state->caught_count);
    for (unsigned i = 0; i < caught; i++)
        complete(loop, &state->caught[i]);
    atomic_store(&state->caught_count, 0);
    mr_count(&loop->counters.system_calls, 1);
    ULONG count = dequeue(state, entries, 0);
    for (ULONG i = 0; i < count; i++)
        complete(loop, &entries[i]);
}

static bool flush(mr_loop *loop)
{
    (void)loop;
    return true; /* nothing is ever queued */
}

static bool has_work(mr_loop *loop)
{
    return atomic_load(&state_of(loop)->caught_count) > 0;
}

/* Whole milliseconds, rounded up: rounded down, the last one would be spent spinning. */
static DWORD timeout_of(uint64_t until_ns)
{
    if (until_ns == MR_NEVER_NS)
        return INFINITE;
    uint64_t left_ms = (mr_clock_left_ns(until_ns) + 999999) / 1000000;
    return left_ms < INFINITE ? (DWORD)left_ms : INFINITE - 1;
}

static void wait_for_completions(const mr_loop *loop, uint64_t until_ns)
{
    port_state *state = state_of(loop);
    if (atomic_load(&state->caught_count) == 0)
        atomic_store(&state->caught_count, dequeue(state, state->caught, timeout_of(until_ns)));
}

static void wake(mr_loop *loop)
{
    PostQueuedCompletionStatus(state_of(loop)->port, 0, 0, NULL);
}

/* ---------------------------------------------------------------------------------------------------- lifetime --- */

static bool find_function(SOCKET number, GUID name, void *function, DWORD size)
{
    DWORD written;
    return WSAIoctl(number, SIO_GET_EXTENSION_FUNCTION_POINTER, &name, sizeof name, function, size, &written, NULL,
                    NULL) == 0;
}

static BOOL CALLBACK start_winsock(INIT_ONCE *once, void *error, void **unused)
{
    WSADATA data;
    (void)once, (void)unused;
    int failure = WSAStartup(MAKEWORD(2, 2), &data);
    if (failure) {
        *(int *)error = mr_error_of_winsock(failure);
        return FALSE;
    }
    SOCKET any = socket(AF_INET, SOCK_STREAM, 0);
    bool found = any != INVALID_SOCKET && find_function(any, (GUID)WSAID_ACCEPTEX, &accept_ex, sizeof accept_ex) &&
                 find_function(any, (GUID)WSAID_CONNECTEX, &connect_ex, sizeof connect_ex);
    *(int *)error = found ? 0 : last_error();
    if (any != INVALID_SOCKET)
        closesocket(any);
    return found;
}

static int prepare_process(void)
{
    static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
    int error = 0;
    return InitOnceExecuteOnce(&once, start_winsock, &error, NULL) ? 0 : error;
}

static int probe(char *reason, size_t reason_size)
{
    int error = prepare_process();
    if (error && reason)
        snprintf(reason, reason_size, "Winsock 2.2 with AcceptEx and ConnectEx cannot be had: %s", strerror(-error));
    return error;
}

static int open_driver(HANDLE *driver)
{
    static WCHAR path[] = L"\\Device\\Afd\\Millrace";
    UNICODE_STRING name = {.Length = sizeof path - sizeof *path, .MaximumLength = sizeof path, .Buffer = path};
    OBJECT_ATTRIBUTES attributes = {.Length = sizeof attributes, .ObjectName = &name};
    IO_STATUS_BLOCK status;
    NTSTATUS result = NtCreateFile(driver, SYNCHRONIZE, &attributes, &status, NULL, 0,
                                   FILE_SHARE_READ | FILE_SHARE_WRITE, FILE_OPEN, 0, NULL, 0);
    return NT_SUCCESS(result) ? 0 : mr_error_of_status(result);
}

static int open_state(port_state *state)
{
    int error = prepare_process();
    if (!error && !(state->port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 1)))
        error = last_error();
    if (!error)
        error = open_driver(&state->driver);
    if (!error && !CreateIoCompletionPort(state->driver, state->port, 0, 0))
        error = last_error();
    return error;
}

static void close_state(port_state *state)
{
    if (state->driver)
        CloseHandle(state->driver);
    if (state->port)
        CloseHandle(state->port);
    free(state);
}

static int create(mr_loop *loop)
{
    port_state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    int error = open_state(state);
    if (error)
        close_state(state);
    else
        loop->backend_state = state;
    return error;
}

static void destroy(mr_loop *loop)
{
    close_state(state_of(loop));
}

const mr_backend_operations mr_iocp_backend = {
    .probe = probe,
    .create = create,
    .destroy = destroy,
    .abandon = destroy, /* Windows has no fork */
    .submit = submit,
    .cancel = cancel,
    .end_shut = end_shut,
    .attempt = attempt,
    .detach = detach,
    .close = close_descriptor,
    .poll = poll_port,
    .flush = flush,
    .has_work = has_work,
    .wait = wait_for_completions,
    .wake = wake,
};
