/* ring.h: the state of the io_uring backend, for the files of this folder only. */
#ifndef MILLRACE_RING_H
#define MILLRACE_RING_H

#include "../../backend.h"
#include "../../uring.h"
#include "millrace_check.h"

enum {
    RING_ENTRIES = 1024,
    COMPLETION_ENTRIES = 8192,
    /* Sends do their TCP work inside the submission: 64 of them take about a quarter of a millisecond of the owner's
     * time. */
    BATCH = 64,
    REAP = 64,
    BUFFERS_MAX = 1024, /* provided buffers; a power of two */
    BUFFER_GROUP = 0,
};

/* user_data of entries that are not operations. No token is that small or that large. */
enum { TAG_WAKE = 1, TAG_EDGES };
#define TAG_CANCEL (UINT64_C(1) << 60) /* added to the token of the operation that is to be cancelled */

/* The queue of an operation that is not in the ring: the backlog, or the operations that wait for an event of
 * `edges`. */
typedef enum mr_ring_queue { IN_NO_QUEUE, AWAITS_SUBMISSION, AWAITS_CANCELLATION, AWAITS_EDGE } mr_ring_queue;

/* The backend's data of an operation. */
typedef struct mr_ring_slot {
    mr_ring_queue queue;
    bool awaits_writable; /* a send that found the socket's buffer full */
    uint8_t faults;       /* see mr_uring_result_on_file */
} mr_ring_slot;

/* The backend's data of a descriptor. */
typedef struct mr_ring_descriptor {
    bool is_watched_for[MR_DIRECTIONS]; /* by `edges`; only while this loop has a handle */
    bool exhausted;                     /* the last receive emptied the socket */
    bool has_positions;                 /* it is known to be a file with positions, not a stream */
} mr_ring_descriptor;

typedef struct mr_ring {
    struct io_uring ring;
    /* Provided buffers, by identifier. `buffer_ring` is NULL if there was no memory for it. */
    struct io_uring_buf_ring *buffer_ring;
    mr_buffer *buffers[BUFFERS_MAX];
    unsigned short buffer_count;    /* identifiers in use */
    unsigned short buffers_missing; /* identifiers without a buffer, because there was no memory */
    unsigned unsubmitted;
    mr_slot_queue backlog; /* operations whose submission or cancellation found the ring full */
    bool wake_armed;
    /* An epoll descriptor, see mr_ring_waits_for_edge. It is opened with the ring: later it could get the number of a
     * standard descriptor that was closed. */
    int edges;
    bool edges_armed;
    size_t edges_waiting;
    bool is_tied;    /* to the thread that uses it first */
    bool is_enabled; /* that thread is known */
} mr_ring;

static inline mr_ring *mr_ring_of(const mr_loop *loop)
{
    return loop->backend_state;
}

static inline mr_ring_slot *mr_ring_slot_of(const mr_slot *slot)
{
    static_assert(sizeof(mr_ring_slot) <= sizeof slot->backend_data, "it fits");
    return (mr_ring_slot *)&slot->backend_data;
}

static inline mr_ring_descriptor *mr_ring_descriptor_of(const mr_descriptor *descriptor)
{
    static_assert(sizeof(mr_ring_descriptor) <= sizeof descriptor->backend_data, "it fits");
    return (mr_ring_descriptor *)&descriptor->backend_data;
}

static inline bool mr_ring_is_borrowing(const mr_slot *slot)
{
    return slot->request.flags & MR_BORROW;
}

#endif
