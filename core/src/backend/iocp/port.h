/* port.h: the state of the backend for completion ports, for the files of this folder only. */
#ifndef MILLRACE_PORT_H
#define MILLRACE_PORT_H

#define WIN32_NO_STATUS /* winnt.h has a few of the numbers of ntstatus.h */
#include "../../backend.h"
#include "../../windows_error.h"

#include <errno.h>
#include <mswsock.h>
#include <windows.h>
#undef WIN32_NO_STATUS
#include <ntstatus.h>
#include <winternl.h>

enum { BATCH = 64 };

/* A send completes when Windows has taken all of its bytes, never a part. So one call sends no more than this. */
enum { BYTES_PER_SEND = 1 << 16 };

typedef struct mr_port {
    HANDLE port;
    HANDLE driver; /* for readiness of sockets, also of those that belong to another port */
    /* Completions that the sleeping thread dequeued. It may not touch operations, so the next poll handles them. */
    OVERLAPPED_ENTRY dequeued[BATCH];
    atomic_uint dequeued_count;
} mr_port;

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

/* The data that Windows uses while an operation is in flight. */
typedef struct mr_port_operation {
    OVERLAPPED overlapped; /* first: a dequeued OVERLAPPED is cast back to its mr_port_operation */
    mr_loop *loop;
    mr_slot *slot;
    HANDLE target;     /* the other argument of CancelIoEx */
    HANDLE event;      /* on a socket of another port: the completion signals it */
    HANDLE event_wait; /* the thread pool's wait for `event` */
    bool is_shut;      /* cancelled because its direction was shut down */
    SOCKET accepted;   /* ACCEPT: the socket that the connection becomes */
    void *view;        /* SEND_FILE: the part of the file that is being sent */
    union {
        char addresses[2 * ADDRESS_SIZE];
        driver_poll poll;
    };
    WSABUF elements[]; /* of vectors */
} mr_port_operation;

/* The backend's data of a descriptor: which port it belongs to. */
typedef struct mr_port_descriptor {
    bool is_ours;
    bool is_others; /* another loop's */
} mr_port_descriptor;

static inline mr_port_descriptor *mr_port_descriptor_of(const mr_descriptor *descriptor)
{
    static_assert(sizeof(mr_port_descriptor) <= sizeof descriptor->backend_data, "it fits");
    return (mr_port_descriptor *)&descriptor->backend_data;
}

static inline mr_port *mr_port_of(const mr_loop *loop)
{
    return loop->backend_state;
}

static inline mr_port_operation *mr_port_operation_of(const mr_slot *slot)
{
    return slot->backend_memory;
}

/* A receive without a buffer waits for bytes, and is then attempted with a borrowed buffer. */
static inline bool mr_port_is_borrowing(const mr_slot *slot)
{
    return slot->request.flags & MR_BORROW;
}

static inline bool mr_port_asks_for_readiness(const mr_slot *slot)
{
    return mr_is_wait(slot->request.kind) || mr_port_is_borrowing(slot);
}

static inline SOCKET mr_port_socket_of(const mr_slot *slot)
{
    return (SOCKET)(unsigned)mr_slot_number(slot);
}

static inline int mr_port_last_error(void)
{
    return mr_error_of_winsock(WSAGetLastError());
}

static inline HANDLE mr_port_file_of(const mr_slot *slot)
{
    return (HANDLE)mr_port_socket_of(slot);
}

#endif
