/*
 * iocp.c: the backend on Windows' completion ports.
 *
 * Every operation has one OVERLAPPED, by which CancelIoEx cancels only that operation. The record lives until the
 * operation's completion has been dequeued, whether it succeeded, failed or was cancelled. No operation completes at
 * once (no FILE_SKIP_COMPLETION_PORT_ON_SUCCESS), so all results come from the port.
 *
 * A socket belongs for ever to the first port that it was associated with. An operation that another loop starts on it
 * must not complete there. Instead it signals an event; the system's thread pool waits for the event, and posts the
 * completion to the right port. So the other loops do not depend on the first one, which may not be polled or not exist
 * any more.
 *
 * Windows knows readiness only inside its socket driver. A wait asks the driver (IOCTL_AFD_POLL), as select does. That
 * request is undocumented; libuv, mio and wepoll rely on it as well.
 */
#include "../../clock.h"
#include "../../perform.h"
#include "attempt.h"
#include "port.h"
#include "process.h"
#include "start.h"

#include <errno.h>
#include <stdlib.h>

/* Starts an operation until it is in flight or has ended. */
static void carry_out(mr_loop *loop, mr_slot *slot)
{
    mr_port_operation *op = mr_port_operation_of(slot);
    int error;
    do {
        error = mr_port_start(op);
        if (!error)
            return;
        mr_port_clean_up(op);
    } while (!mr_loop_settle(loop, slot, mr_port_with_end(slot->request.kind, error)));
}

static mr_port_operation *new_operation(mr_loop *loop, mr_slot *slot)
{
    size_t elements = mr_has_trait(slot->request.kind, MR_HAS_VECTOR) ? slot->request.length : 0;
    mr_port_operation *op = calloc(1, sizeof *op + elements * sizeof *op->elements);
    if (op) {
        op->loop = loop;
        op->slot = slot;
        op->accepted = INVALID_SOCKET;
    }
    return op;
}

/* Prepares to start an operation. Sets *is_over if it has ended, and returns its result; otherwise returns 0. */
static int64_t prepare(mr_loop *loop, mr_slot *slot, bool *is_over)
{
    int64_t result = 0;
    *is_over = true;
    if (slot->request.kind == MR_SYNC_FILE)
        return mr_port_sync_file(slot);
    if (mr_port_is_borrowing(slot) && (result = mr_perform_step(loop, slot)) != -EAGAIN)
        return result;
    if (!mr_port_asks_for_readiness(slot) && (result = mr_port_associate(loop, slot)) < 0)
        return result;
    if (slot->request.kind == MR_SEND_FILE && (result = mr_port_bytes_of_file(&slot->request)) <= 0)
        return result; /* Windows maps no empty view */
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
    mr_port_operation *op = mr_port_operation_of(slot);
    mr_count(&loop->counters.system_calls, 1);
    CancelIoEx(op->target, &op->overlapped); /* may fail with ERROR_NOT_FOUND: the completion is in the port already */
}

/* Cancels the operations; result_of converts the cancellation to their result. */
static void end_shut(mr_loop *loop, mr_descriptor *descriptor, int direction)
{
    for (mr_slot *slot = descriptor->first[direction]; slot; slot = slot->next) {
        if (slot->state != MR_SLOT_PENDING)
            continue;
        mr_port_operation_of(slot)->is_shut = true;
        cancel(loop, slot);
    }
}

static void detach(mr_loop *loop, mr_descriptor *descriptor)
{
    (void)loop;
    mr_port_descriptor_of(descriptor)->is_ours = mr_port_descriptor_of(descriptor)->is_others = false;
}

static int close_descriptor(mr_loop *loop, int number)
{
    SOCKET socket = (SOCKET)(unsigned)number;
    (void)loop;
    bool is_closed = mr_port_is_file((HANDLE)socket) ? CloseHandle((HANDLE)socket) : closesocket(socket) == 0;
    return is_closed ? 0 : mr_port_last_error();
}

/* -------------------------------------------------------------------------------------------------- completing --- */

/* Finishes an accepted socket: before this it does not know its addresses and cannot be shut down. If this fails, the
 * connection has failed, not the listener. */
static int64_t finish_accept(mr_port_operation *op)
{
    SOCKET listener = mr_port_socket_of(op->slot), accepted = op->accepted;
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
    int64_t result = mr_port_set_flags_or_close(accepted);
    return result < 0 ? -ECONNABORTED : result;
}

static int64_t finish_connect(mr_port_operation *op)
{
    SOCKET number = mr_port_socket_of(op->slot);
    return setsockopt(number, SOL_SOCKET, SO_UPDATE_CONNECT_CONTEXT, NULL, 0) == 0 ? 0 : mr_port_last_error();
}

/* Whether part of a cancelled send was sent. */
static bool has_gone_in_part(const mr_port_operation *op)
{
    mr_kind kind = op->slot->request.kind;
    return mr_has_trait(kind, MR_SENDS) && op->overlapped.InternalHigh > 0;
}

static int64_t receive_borrowed(mr_port_operation *op)
{
    int64_t result = mr_perform_step(op->loop, op->slot);
    /* Under Wine, reporting a reset clears the error, and the socket then looks as if the peer had ended the stream. */
    return result == 0 && op->poll.events & DRIVER_ABORT ? -ECONNRESET : result;
}

static int64_t result_of(mr_port_operation *op)
{
    mr_kind kind = op->slot->request.kind;
    NTSTATUS status = (NTSTATUS)op->overlapped.Internal;
    /* STATUS_BUFFER_OVERFLOW: the datagram was longer than the buffer. POSIX does not report that either. */
    if (NT_SUCCESS(status) || status == STATUS_BUFFER_OVERFLOW ||
        (status == STATUS_CANCELLED && has_gone_in_part(op))) {
        if (kind == MR_ACCEPT)
            return finish_accept(op);
        if (kind == MR_CONNECT)
            return finish_connect(op);
        if (mr_is_wait(kind))
            return op->poll.events & DRIVER_LOCAL_CLOSE ? -EBADF : 0;
        if (mr_port_is_borrowing(op->slot))
            return receive_borrowed(op);
        return (int64_t)op->overlapped.InternalHigh;
    }
    int error = mr_error_of_status(status);
    if (kind == MR_ACCEPT)
        return mr_port_of_accept(error);
    if (error == -ECANCELED && op->is_shut && !op->slot->end_reason)
        return mr_has_trait(kind, MR_RECEIVES) || mr_is_wait(kind) ? 0 : -EPIPE;
    return mr_port_with_end(kind, error);
}

static void complete(mr_loop *loop, const OVERLAPPED_ENTRY *entry)
{
    mr_port_operation *op = (mr_port_operation *)entry->lpOverlapped;
    if (!op)
        return; /* a wake */
    mr_slot *slot = op->slot;
    int64_t result = result_of(op);
    mr_port_clean_up(op);
    /* Another thread took the bytes. If the operation was cancelled, that cancellation is over: started again, it would
     * never end. */
    if (result == -EAGAIN && slot->end_reason)
        result = -ECANCELED;
    if (result == -EAGAIN || !mr_loop_settle(loop, slot, result))
        carry_out(loop, slot);
}

static ULONG dequeue(const mr_port *state, OVERLAPPED_ENTRY *entries, DWORD timeout_ms)
{
    ULONG count = 0;
    return GetQueuedCompletionStatusEx(state->port, entries, BATCH, &count, timeout_ms, FALSE) ? count : 0;
}

static void poll_port(mr_loop *loop)
{
    mr_port *state = mr_port_of(loop);
    OVERLAPPED_ENTRY entries[BATCH];
    unsigned dequeued = atomic_load(&state->dequeued_count);
    for (unsigned i = 0; i < dequeued; i++)
        complete(loop, &state->dequeued[i]);
    atomic_store(&state->dequeued_count, 0);
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
    return atomic_load(&mr_port_of(loop)->dequeued_count) > 0;
}

/* Whole milliseconds, rounded up: rounded down, the loop would poll without a pause during the last one. */
static DWORD timeout_of(uint64_t until_ns)
{
    if (until_ns == MR_NEVER_NS)
        return INFINITE;
    uint64_t left_ms = (mr_clock_left_ns(until_ns) + 999999) / 1000000;
    return left_ms < INFINITE ? (DWORD)left_ms : INFINITE - 1;
}

static void wait_for_completions(const mr_loop *loop, uint64_t until_ns)
{
    mr_port *state = mr_port_of(loop);
    if (atomic_load(&state->dequeued_count) == 0)
        atomic_store(&state->dequeued_count, dequeue(state, state->dequeued, timeout_of(until_ns)));
}

static void wake(mr_loop *loop)
{
    PostQueuedCompletionStatus(mr_port_of(loop)->port, 0, 0, NULL);
}

/* ---------------------------------------------------------------------------------------------------- lifetime --- */

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

static int open_state(mr_port *state)
{
    int error = mr_port_prepare_process();
    if (!error && !(state->port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 1)))
        error = mr_port_last_error();
    if (!error)
        error = open_driver(&state->driver);
    if (!error && !CreateIoCompletionPort(state->driver, state->port, 0, 0))
        error = mr_port_last_error();
    return error;
}

static void close_state(mr_port *state)
{
    if (state->driver)
        CloseHandle(state->driver);
    if (state->port)
        CloseHandle(state->port);
    free(state);
}

static int create(mr_loop *loop)
{
    mr_port *state = calloc(1, sizeof *state);
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
    close_state(mr_port_of(loop));
}

const mr_backend_operations mr_iocp_backend = {
    .probe = mr_port_probe,
    .create = create,
    .destroy = destroy,
    .abandon = destroy, /* Windows has no fork */
    .submit = submit,
    .cancel = cancel,
    .end_shut = end_shut,
    .attempt = mr_port_attempt,
    .detach = detach,
    .close = close_descriptor,
    .poll = poll_port,
    .flush = flush,
    .has_work = has_work,
    .wait = wait_for_completions,
    .wake = wake,
};
