/* machine_attempt.c: tries an operation once on a simulated machine, without blocking. */
#include "machine_attempt.h"
#include "../../machine/socket.h"
#include "../../machine/socket_calls.h"
#include "../../attempt.h"

#include <errno.h>
#include <unistd.h>

enum { FILE_BYTES_PER_ATTEMPT = 1 << 16, SHORT_BYTES = 8 };

static int64_t attempt_accept(mr_machine *machine, const mr_slot *slot)
{
    mr_address *address = slot->request.buffer;
    const int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    if (!address)
        return mr_machine_accept(machine, mr_slot_number(slot), NULL, NULL, flags);
    address->length = sizeof address->storage;
    return mr_machine_accept(machine, mr_slot_number(slot), (struct sockaddr *)&address->storage, &address->length,
                             flags);
}

static int64_t attempt_connect(mr_machine *machine, mr_slot *slot)
{
    int number = mr_slot_number(slot);
    socklen_t length = (socklen_t)slot->request.length;
    int result = mr_machine_connect(machine, number, slot->request.buffer, length);
    if (result == -EAGAIN)
        return -MR_QUEUE_FULL;
    if (result == -EINPROGRESS) {
        slot->has_begun = true;
        result = mr_machine_connect(machine, number, slot->request.buffer, length);
    }
    return slot->has_begun && result == -EALREADY ? -EAGAIN : result;
}

static int64_t read_file(mr_machine *machine, const mr_request *request, void *buffer, size_t size)
{
    if (mr_machine_owns(request->file))
        return mr_machine_pread(machine, request->file, buffer, size, request->offset);
    ssize_t result = pread(request->file, buffer, size, (off_t)request->offset);
    return result < 0 ? -errno : result;
}

static int64_t attempt_send_file(mr_machine *machine, mr_socket *socket, const mr_request *request, uint64_t stall_ns)
{
    unsigned char buffer[FILE_BYTES_PER_ATTEMPT];
    size_t size = request->length < sizeof buffer ? request->length : sizeof buffer;
    int64_t result = read_file(machine, request, buffer, size);
    if (result <= 0)
        return result;
    struct iovec element = {buffer, (size_t)result};
    return mr_socket_send(machine, socket, &element, 1, stall_ns, false);
}

/* Returns the first element that is not empty, cut to a few bytes. */
static struct iovec short_element(mr_machine *machine, const struct iovec *elements, size_t count)
{
    size_t i = 0;
    while (i + 1 < count && elements[i].iov_len == 0)
        i++;
    size_t most = 1 + mr_machine_draw(machine, SHORT_BYTES);
    return (struct iovec){elements[i].iov_base, elements[i].iov_len < most ? elements[i].iov_len : most};
}

static int64_t attempt_transfer(mr_machine *machine, const mr_slot *slot, mr_fault fault)
{
    const mr_request *request = &slot->request;
    int error;
    mr_socket *socket = mr_socket_of(machine, mr_slot_number(slot), &error);
    if (!socket)
        return error;
    uint64_t stall_ns = fault == MR_FAULT_STALL ? machine->plan.stall_ns : 0;
    if (request->kind == MR_SEND_FILE)
        return attempt_send_file(machine, socket, request, stall_ns);
    bool is_vector = mr_has_trait(request->kind, MR_HAS_VECTOR);
    struct iovec single = {request->buffer, request->length};
    const struct iovec *elements = is_vector ? request->buffer : &single;
    size_t count = is_vector ? request->length : 1;
    struct iovec part = fault == MR_FAULT_SHORT ? short_element(machine, elements, count) : single;
    if (fault == MR_FAULT_SHORT) {
        elements = &part;
        count = 1;
    }
    if (mr_direction_of(request->kind) == MR_READING)
        return mr_socket_receive(machine, socket, elements, count);
    return mr_socket_send(machine, socket, elements, count, stall_ns, false);
}

static int64_t attempt_on_file(mr_machine *machine, const mr_slot *slot, mr_fault fault)
{
    const mr_request *request = &slot->request;
    int number = mr_slot_number(slot);
    struct iovec whole = {request->buffer, mr_file_bytes(request)};
    if (request->kind == MR_SYNC_FILE)
        return mr_machine_fsync(machine, number);
    if (fault == MR_FAULT_SHORT)
        whole = short_element(machine, &whole, 1);
    if (request->kind == MR_READ_FILE)
        return mr_machine_pread(machine, number, whole.iov_base, whole.iov_len, request->offset);
    return mr_machine_pwrite(machine, number, whole.iov_base, whole.iov_len, request->offset);
}

int64_t mr_sim_attempt(mr_machine *machine, mr_slot *slot, mr_fault fault)
{
    const mr_request *request = &slot->request;
    switch (request->kind) {
    case MR_ACCEPT:
        return attempt_accept(machine, slot);
    case MR_CONNECT:
        return attempt_connect(machine, slot);
    case MR_RECV:
    case MR_SEND:
    case MR_RECV_VECTOR:
    case MR_SEND_VECTOR:
    case MR_SEND_FILE:
        return attempt_transfer(machine, slot, fault);
    case MR_READ_FILE:
    case MR_WRITE_FILE:
    case MR_SYNC_FILE:
        return attempt_on_file(machine, slot, fault);
    case MR_WAIT_READABLE:
        return mr_machine_readable(machine, mr_slot_number(slot));
    case MR_WAIT_WRITABLE:
        return mr_machine_writable(machine, mr_slot_number(slot));
    case MR_SHUTDOWN:
        return mr_machine_shutdown(machine, mr_slot_number(slot), (int)request->length);
    case MR_SEND_THEN_RECEIVE:
    case MR_CLOSE:
    case MR_TIMEOUT:
    case MR_KIND_COUNT:
        break;
    }
    return -EINVAL;
}
