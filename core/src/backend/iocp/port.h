/* port.h: the insides of the backend for completion ports, for the files of this folder only. */
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

/* A send completes when all of it has been taken, never a part. So it is given no more than this at a time. */
enum { BYTES_PER_SEND = 1 << 16 };

typedef struct mr_port {
    HANDLE port;
    HANDLE driver; /* for readiness of sockets, also of such as must not be associated with our port */
    /* What the sleeper dequeued: it may not touch operations, so the next poll takes them. */
    OVERLAPPED_ENTRY caught[BATCH];
    atomic_uint caught_count;
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

/* What Windows works on while an operation is in flight. */
typedef struct mr_port_operation {
    OVERLAPPED overlapped; /* first: a dequeued OVERLAPPED is cast back to its mr_port_operation */
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
} mr_port_operation;

/* What this backend keeps of a descriptor: whose port it belongs to. */
typedef struct mr_port_descriptor {
    bool is_ours;
    bool is_others; /* another loop's */
} mr_port_descriptor;

static inline mr_port_descriptor *mr_port_descriptor_of(const mr_descriptor *descriptor)
{
    static_assert(sizeof(mr_port_descriptor) <= sizeof descriptor->part, "it fits");
    return (mr_port_descriptor *)&descriptor->part;
}

static inline mr_port *mr_port_of(const mr_loop *loop)
{
    return loop->backend_state;
}

static inline mr_port_operation *mr_port_operation_of(const mr_slot *slot)
{
    return slot->backend_memory;
}

/* A receive that brings no buffer waits for bytes and then is attempted with a borrowed one. */
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

/* process.c */

extern LPFN_CONNECTEX mr_port_connect_ex;
extern LPFN_ACCEPTEX mr_port_accept_ex;

int mr_port_prepare_process(void);
int mr_port_probe(char *reason, size_t reason_size);

/* start.c */

/* Finds out whose port the socket belongs to: ours, unless another loop was faster. */
int mr_port_associate(mr_loop *loop, mr_slot *slot);

/* Starts an operation: 0 if a completion will come, or the error that prevents it. */
int mr_port_start(mr_port_operation *op);

/* Gives back what an operation held, but the connection that it may have accepted. */
void mr_port_clean_up(mr_port_operation *op);

/* A receive after the receiving side was shut down is at the end of the stream, as on POSIX; a read beyond the end of a
 * file is no error either. */
int64_t mr_port_with_end(mr_kind kind, int64_t result);

WSABUF mr_port_whole_buffer(const mr_request *request);

/* iovec and WSABUF have the same members in another order, and of another size. Returns how many are needed. */
DWORD mr_port_copy_elements(WSABUF *elements, const mr_request *request);

/* How much of a file there is to send at most; 0 at its end. */
int64_t mr_port_bytes_of_file(const mr_request *request);

/* Maps the part of the file that a request begins with. A view leaves the file's position alone, which reading does
 * not. TransmitFile would too, but under Wine 8 it never ends when the peer goes away meanwhile. */
int mr_port_map_file(const mr_request *request, void **view, WSABUF *bytes);
void mr_port_unmap_file(void **view);

/* Windows would read a socket, too, as if it were a file. */
bool mr_port_is_file(HANDLE handle);
int mr_port_begin_on_file(const mr_slot *slot, OVERLAPPED *overlapped);

/* Windows has no operation for it: the caller waits for the disk. */
int mr_port_sync_file(const mr_slot *slot);

/* attempt.c */

int64_t mr_port_attempt(mr_loop *loop, mr_slot *slot);

/* Makes a socket that was accepted what POSIX's accept4 would make it. */
int64_t mr_port_fit_or_error(SOCKET number);

/* What became of a connection in the queue is no matter of the listener's. */
int mr_port_of_accept(int error);

#endif
