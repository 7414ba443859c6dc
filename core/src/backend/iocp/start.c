/* start.c: starts each operation on Windows, with its OVERLAPPED. */
#include "port.h"
#include "process.h"
#include "start.h"

#include <stdlib.h>
#include <string.h>

int mr_port_associate(mr_loop *loop, mr_slot *slot)
{
    mr_descriptor *descriptor = slot->descriptor;
    if (mr_port_descriptor_of(descriptor)->is_ours || mr_port_descriptor_of(descriptor)->is_others)
        return 0;
    mr_count(&loop->counters.system_calls, 1);
    if (CreateIoCompletionPort((HANDLE)mr_port_socket_of(slot), mr_port_of(loop)->port, 0, 0))
        mr_port_descriptor_of(descriptor)->is_ours = true;
    else if (GetLastError() == ERROR_INVALID_PARAMETER)
        mr_port_descriptor_of(descriptor)->is_others = true;
    else
        return mr_port_last_error();
    return 0;
}

static void CALLBACK post_completion(void *argument, BOOLEAN timed_out)
{
    mr_port_operation *op = argument;
    (void)timed_out;
    PostQueuedCompletionStatus(mr_port_of(op->loop)->port, 0, 0, &op->overlapped);
}

static void close_event(mr_port_operation *op)
{
    if (op->event_wait)
        UnregisterWaitEx(op->event_wait, NULL);
    if (op->event)
        CloseHandle(op->event);
    op->event_wait = op->event = NULL;
}

/* Makes the operation signal an event. The lowest bit keeps its completion from the socket's port. */
static int direct_to_event(mr_port_operation *op)
{
    op->event = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (!op->event || !RegisterWaitForSingleObject(&op->event_wait, op->event, post_completion, op, INFINITE,
                                                   WT_EXECUTEINWAITTHREAD | WT_EXECUTEONLYONCE)) {
        int error = mr_port_last_error();
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
    return mr_port_last_error();
}

static int start_accept(mr_port_operation *op)
{
    SOCKET listener = mr_port_socket_of(op->slot);
    int is_listening = 0, size = sizeof is_listening;
    if (getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, (char *)&is_listening, &size) != 0)
        return mr_port_last_error();
    if (!is_listening)
        return -EINVAL;
    op->accepted =
        WSASocketW(family_of(listener), SOCK_STREAM, 0, NULL, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (op->accepted == INVALID_SOCKET)
        return mr_port_last_error();
    DWORD received;
    return outcome(mr_port_accept_ex(listener, op->accepted, op->addresses, 0, ADDRESS_SIZE, ADDRESS_SIZE, &received,
                                     &op->overlapped));
}

/* ConnectEx requires a bound socket; any address will do. */
static int start_connect(mr_port_operation *op)
{
    SOCKET number = mr_port_socket_of(op->slot);
    const struct sockaddr *peer = op->slot->request.buffer;
    struct sockaddr_storage any = {.ss_family = (short)peer->sa_family};
    int length = (int)op->slot->request.length;
    if (family_of(number) == AF_UNSPEC && bind(number, (struct sockaddr *)&any, length) != 0)
        return mr_port_last_error();
    return outcome(mr_port_connect_ex(number, peer, length, NULL, 0, NULL, &op->overlapped));
}

/* A datagram that is longer than the buffer is a warning (STATUS_BUFFER_OVERFLOW), and its completion still comes. */
static int start_receive(mr_port_operation *op, WSABUF *buffers, DWORD count)
{
    DWORD flags = 0;
    int failed = WSARecv(mr_port_socket_of(op->slot), buffers, count, NULL, &flags, &op->overlapped, NULL);
    return failed && WSAGetLastError() == WSAEMSGSIZE ? 0 : outcome(!failed);
}

static int start_send(mr_port_operation *op, WSABUF *buffers, DWORD count)
{
    return outcome(WSASend(mr_port_socket_of(op->slot), buffers, count, NULL, 0, &op->overlapped, NULL) == 0);
}

static uint64_t bytes_at_most(mr_kind kind)
{
    return mr_has_trait(kind, MR_RECEIVES) ? LONG_MAX : BYTES_PER_SEND;
}

WSABUF mr_port_whole_buffer(const mr_request *request)
{
    uint64_t limit = bytes_at_most(request->kind);
    return (WSABUF){.len = (ULONG)(request->length < limit ? request->length : limit), .buf = request->buffer};
}

DWORD mr_port_copy_elements(WSABUF *elements, const mr_request *request)
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

static int start_wait(mr_port_operation *op)
{
    ULONG events = op->slot->request.kind == MR_WAIT_WRITABLE
                       ? DRIVER_SEND | DRIVER_CONNECT_FAIL
                       : DRIVER_RECEIVE | DRIVER_RECEIVE_EXPEDITED | DRIVER_DISCONNECT | DRIVER_ACCEPT;
    op->target = mr_port_of(op->loop)->driver;
    op->poll = (driver_poll){.timeout.QuadPart = INT64_MAX,
                             .count = 1,
                             .socket = (HANDLE)mr_port_socket_of(op->slot),
                             .events = events | DRIVER_ABORT | DRIVER_LOCAL_CLOSE};
    /* An OVERLAPPED begins with an IO_STATUS_BLOCK. The port returns its address. */
    IO_STATUS_BLOCK *status = (IO_STATUS_BLOCK *)&op->overlapped;
    NTSTATUS result = NtDeviceIoControlFile(op->target, NULL, NULL, &op->overlapped, status, IOCTL_DRIVER_POLL,
                                            &op->poll, sizeof op->poll, &op->poll, sizeof op->poll);
    return NT_SUCCESS(result) ? 0 : mr_error_of_status(result);
}

int64_t mr_port_bytes_of_file(const mr_request *request)
{
    LARGE_INTEGER size;
    if (!GetFileSizeEx((HANDLE)(intptr_t)request->file, &size))
        return mr_port_last_error();
    uint64_t left = (uint64_t)size.QuadPart > request->offset ? (uint64_t)size.QuadPart - request->offset : 0;
    left = left < request->length ? left : request->length;
    return left < BYTES_PER_SEND ? (int64_t)left : BYTES_PER_SEND;
}

int mr_port_map_file(const mr_request *request, void **view, WSABUF *bytes)
{
    SYSTEM_INFO system;
    int64_t size = mr_port_bytes_of_file(request);
    if (size < 0)
        return (int)size;
    GetSystemInfo(&system);
    uint64_t begin = request->offset - request->offset % system.dwAllocationGranularity;
    size_t skipped = (size_t)(request->offset - begin);
    HANDLE mapping = CreateFileMappingW((HANDLE)(intptr_t)request->file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping)
        return mr_port_last_error();
    *view = MapViewOfFile(mapping, FILE_MAP_READ, (DWORD)(begin >> 32), (DWORD)begin, skipped + (size_t)size);
    int error = *view ? 0 : mr_port_last_error();
    CloseHandle(mapping); /* the view keeps it */
    *bytes = (WSABUF){.len = (ULONG)size, .buf = (char *)*view + skipped};
    return error;
}

void mr_port_unmap_file(void **view)
{
    if (*view)
        UnmapViewOfFile(*view);
    *view = NULL;
}

static int start_send_file(mr_port_operation *op)
{
    WSABUF bytes;
    int error = mr_port_map_file(&op->slot->request, &op->view, &bytes);
    return error ? error : start_send(op, &bytes, 1);
}

bool mr_port_is_file(HANDLE handle)
{
    return GetFileType(handle) == FILE_TYPE_DISK;
}

int mr_port_begin_on_file(const mr_slot *slot, OVERLAPPED *overlapped)
{
    const mr_request *request = &slot->request;
    DWORD size = (DWORD)mr_file_bytes(request);
    if (!mr_port_is_file(mr_port_file_of(slot)))
        return -ESPIPE;
    overlapped->Offset = (DWORD)request->offset;
    overlapped->OffsetHigh = (DWORD)(request->offset >> 32);
    return outcome(request->kind == MR_READ_FILE
                       ? ReadFile(mr_port_file_of(slot), request->buffer, size, NULL, overlapped)
                       : WriteFile(mr_port_file_of(slot), request->buffer, size, NULL, overlapped));
}

int mr_port_sync_file(const mr_slot *slot)
{
    if (!mr_port_is_file(mr_port_file_of(slot)))
        return -EINVAL;
    return FlushFileBuffers(mr_port_file_of(slot)) ? 0 : mr_port_last_error();
}

int mr_port_start(mr_port_operation *op)
{
    const mr_request *request = &op->slot->request;
    WSABUF whole = mr_port_whole_buffer(request);
    memset(&op->overlapped, 0, sizeof op->overlapped);
    op->target = (HANDLE)mr_port_socket_of(op->slot);
    mr_count(&op->loop->counters.system_calls, 1);
    if (mr_port_asks_for_readiness(op->slot))
        return start_wait(op);
    if (mr_port_descriptor_of(op->slot->descriptor)->is_others) {
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
        return start_receive(op, op->elements, mr_port_copy_elements(op->elements, request));
    case MR_SEND_VECTOR:
        return start_send(op, op->elements, mr_port_copy_elements(op->elements, request));
    case MR_READ_FILE:
    case MR_WRITE_FILE:
        return mr_port_begin_on_file(op->slot, &op->overlapped);
    default: /* MR_SEND_FILE; no other kind reaches a backend */
        return start_send_file(op);
    }
}

void mr_port_clean_up(mr_port_operation *op)
{
    mr_port_unmap_file(&op->view);
    close_event(op);
    if (op->accepted != INVALID_SOCKET)
        closesocket(op->accepted);
    op->accepted = INVALID_SOCKET;
}

int64_t mr_port_with_end(mr_kind kind, int64_t result)
{
    return result == -EPIPE && (mr_has_trait(kind, MR_RECEIVES) || kind == MR_READ_FILE) ? 0 : result;
}
