/* prepare.c: fills in the submission entry of each operation. */
#include "prepare.h"
#include "ring.h"

#include "../../send_then_receive.h"

#include <poll.h>

bool mr_ring_is_attempted(const mr_ring *state, const mr_slot *slot)
{
    return slot->request.kind == MR_CONNECT || slot->request.kind == MR_SEND_FILE ||
           (mr_ring_is_borrowing(slot) && !state->buffer_ring);
}

static void prepare_message(struct io_uring_sqe *entry, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    struct msghdr *message = slot->backend_memory;
    *message = (struct msghdr){.msg_iov = request->buffer, .msg_iovlen = request->length};
    if (request->kind == MR_RECV_VECTOR)
        io_uring_prep_recvmsg(entry, mr_slot_number(slot), message, 0);
    else
        io_uring_prep_sendmsg(entry, mr_slot_number(slot), message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* An entry has 32 bits for a length, and the kernel moves less than 2 GiB at a time. */
static size_t entry_bytes(const mr_request *request)
{
    const uint64_t most = UINT64_C(1) << 30;
    return (size_t)(request->length < most ? request->length : most);
}

static void prepare_recv(struct io_uring_sqe *entry, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    io_uring_prep_recv(entry, mr_slot_number(slot), request->buffer, entry_bytes(request), 0);
    if (mr_ring_is_borrowing(slot)) {
        entry->flags |= IOSQE_BUFFER_SELECT;
        entry->buf_group = BUFFER_GROUP;
    }
    /* After a receive that has emptied the socket, a first attempt now would most likely fail. */
    if (mr_ring_descriptor_of(slot->descriptor)->exhausted)
        entry->ioprio |= IORING_RECVSEND_POLL_FIRST;
}

void mr_ring_prepare(const mr_ring *state, struct io_uring_sqe *entry, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    int number = mr_slot_number(slot);
    mr_address *address = request->buffer;

    switch (mr_ring_slot_of(slot)->awaits_writable ? MR_WAIT_WRITABLE : request->kind) {
    case MR_ACCEPT:
        if (address)
            address->length = sizeof address->storage;
        io_uring_prep_accept(entry, number, address ? (struct sockaddr *)&address->storage : NULL,
                             address ? &address->length : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        break;
    case MR_RECV:
        if (mr_ring_is_attempted(state, slot))
            io_uring_prep_poll_add(entry, number, POLLIN | POLLRDHUP);
        else
            prepare_recv(entry, slot);
        break;
    case MR_SEND:
        io_uring_prep_send(entry, number, request->buffer, entry_bytes(request),
                           MSG_NOSIGNAL | MSG_DONTWAIT | (request->flags & MR_MORE ? MSG_MORE : 0));
        break;
    case MR_SEND_THEN_RECEIVE:
        io_uring_prep_send(entry, number, mr_send_then_receive_bytes(request), request->length,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case MR_RECV_VECTOR:
    case MR_SEND_VECTOR:
        prepare_message(entry, slot);
        break;
    case MR_READ_FILE:
    case MR_WRITE_FILE:
    case MR_SYNC_FILE:
        mr_uring_prepare_file(entry, slot);
        break;
    case MR_WAIT_READABLE:
        io_uring_prep_poll_add(entry, number, POLLIN | POLLRDHUP);
        break;
    default: /* MR_CONNECT, MR_SEND_FILE, MR_WAIT_WRITABLE and sends to a full socket: no other kind gets here */
        io_uring_prep_poll_add(entry, number, POLLOUT);
        break;
    }
    entry->user_data = slot->token;
}
