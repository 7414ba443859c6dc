/* ring.h: internal to the io_uring backend, for the files of this folder only. */
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

/* buffers.c */

/* Provides no buffers if that fails: then a receive without a buffer is attempted when the socket is readable. */
void mr_ring_open_buffers(mr_ring *state);
void mr_ring_close_buffers(mr_ring *state);
/* Frees the buffers in the child of a fork, which has not inherited the buffer ring. */
void mr_ring_free_buffers(mr_ring *state);

/*
 * Provides one more buffer after a receive has found none. So the kernel has as many as were ever in use at once, and a
 * loop with little traffic uses the same few again, which stay in the cache.
 */
void mr_ring_add_buffer(mr_loop *loop, mr_ring *state);

/* Returns the buffer that the kernel has chosen, and provides another one with its identifier. */
mr_buffer *mr_ring_take_chosen(mr_loop *loop, mr_ring *state, const struct io_uring_cqe *entry);

/* prepare.c */

/*
 * True for operations that the loop attempts itself and, if they would block, again when the socket is ready. io_uring
 * cannot send a file in one step; a connect could not be submitted again after its thread has ended (EALREADY); and a
 * receive without a buffer needs provided buffers.
 */
bool mr_ring_is_attempted(const mr_ring *state, const mr_slot *slot);

void mr_ring_prepare(const mr_ring *state, struct io_uring_sqe *entry, mr_slot *slot);

/* queue.c */

/* Returns an entry of the ring, or NULL if it is full. */
struct io_uring_sqe *mr_ring_next_entry(mr_loop *loop, mr_ring *state);

/* Submits all entries to the kernel, which may leave some. */
void mr_ring_flush(mr_loop *loop, mr_ring *state);

/* Queues an operation in the ring, or in the backlog if the ring is full. */
void mr_ring_enqueue(mr_loop *loop, mr_slot *slot);

void mr_ring_prepare_cancel(struct io_uring_sqe *entry, mr_slot *slot);
void mr_ring_push_backlog(mr_ring *state, mr_slot *slot, mr_ring_queue purpose);
void mr_ring_leave_backlog(mr_ring *state, mr_slot *slot);
void mr_ring_submit_backlog(mr_loop *loop, mr_ring *state);

/* edges.c */

/* True if an operation with this result must wait for an edge, because a poll of the ring would complete again at
 * once. */
bool mr_ring_waits_for_edge(const mr_ring *state, const mr_slot *slot, int32_t answer);

/*
 * Makes an operation wait for an edge. If its direction is watched already, earlier events may have been meant for it,
 * so it is attempted once more first. Returns true if it waits or has ended; false if there is no memory, and then it
 * must be submitted again.
 */
bool mr_ring_wait_for_edge(mr_loop *loop, mr_slot *slot);

void mr_ring_leave_edges(mr_ring *state, mr_slot *slot);
void mr_ring_arm_edges(mr_loop *loop, mr_ring *state);
void mr_ring_note_edges(mr_loop *loop, mr_ring *state);
void mr_ring_detach(mr_loop *loop, mr_descriptor *descriptor);

/* io_uring.c */

void mr_ring_submit(mr_loop *loop, mr_slot *slot);

#endif
