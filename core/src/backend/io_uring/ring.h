/* ring.h: the insides of the io_uring backend, for the files of this folder only. */
#ifndef MILLRACE_RING_H
#define MILLRACE_RING_H

#include "../../backend.h"
#include "../../uring.h"
#include "millrace_check.h"

enum {
    RING_ENTRIES = 1024,
    COMPLETION_ENTRIES = 8192,
    /* Sends do their TCP work inside the submission: 64 of them keep the owner for about a quarter of a millisecond. */
    BATCH = 64,
    REAP = 64,
    BUFFERS_MAX = 1024, /* that the kernel may choose from; a power of two */
    BUFFER_GROUP = 0,
};

/* user_data of entries that are no operation: tokens are neither that small nor that great. */
enum { TAG_WAKE = 1, TAG_EDGES };
#define TAG_CANCEL (UINT64_C(1) << 60) /* beside the token that is to be cancelled */

/* The queue of ours that an operation is in: the backlog of the ring, or those that wait for an event of `edges`. */
typedef enum mr_ring_queue { IN_NO_QUEUE, AWAITS_SUBMISSION, AWAITS_CANCELLATION, AWAITS_EDGE } mr_ring_queue;

/* What this backend keeps for an operation. */
typedef struct mr_ring_slot {
    mr_ring_queue queue;
    bool awaits_room; /* a send that found none */
    uint8_t faults;   /* see mr_uring_result_on_file */
} mr_ring_slot;

/* ... and of a descriptor. */
typedef struct mr_ring_descriptor {
    bool is_watched_for[MR_DIRECTIONS]; /* by `edges`; only while this loop has a handle */
    bool exhausted;                     /* the last receive emptied the socket */
    bool has_positions;                 /* it is known to be a file of which parts can be read */
} mr_ring_descriptor;

typedef struct mr_ring {
    struct io_uring ring;
    /* Buffers the kernel may choose from, by identifier; no `buffer_ring` without memory for it. */
    struct io_uring_buf_ring *buffer_ring;
    mr_buffer *buffers[BUFFERS_MAX];
    unsigned short buffer_count;    /* identifiers in use */
    unsigned short buffers_missing; /* ... and without a buffer, because there was no memory */
    unsigned unsubmitted;
    mr_slot_queue backlog; /* operations whose submission or cancellation found no room in the ring */
    bool wake_armed;
    /* an epoll descriptor, see mr_ring_waits_for_edge; opened with the ring: later, it could take the number of a
     * standard descriptor that was closed */
    int edges;
    bool edges_armed;
    size_t edges_waiting;
    bool is_tied;    /* to the thread that uses it first ... */
    bool is_enabled; /* ... which is known */
} mr_ring;

static inline mr_ring *mr_ring_of(const mr_loop *loop)
{
    return loop->backend_state;
}

static inline mr_ring_slot *mr_ring_slot_of(const mr_slot *slot)
{
    static_assert(sizeof(mr_ring_slot) <= sizeof slot->part, "it fits");
    return (mr_ring_slot *)&slot->part;
}

static inline mr_ring_descriptor *mr_ring_descriptor_of(const mr_descriptor *descriptor)
{
    static_assert(sizeof(mr_ring_descriptor) <= sizeof descriptor->part, "it fits");
    return (mr_ring_descriptor *)&descriptor->part;
}

static inline bool mr_ring_is_borrowing(const mr_slot *slot)
{
    return slot->request.flags & MR_BORROW;
}

/* buffers.c */

/* Without success, receives that bring no buffer are attempted when the socket is readable. */
void mr_ring_open_buffers(mr_ring *state);
void mr_ring_close_buffers(mr_ring *state);
/* In the child of a fork, which has not inherited the buffer ring. */
void mr_ring_free_buffers(mr_ring *state);

/*
 * A receive has found no buffer in the kernel: one more is needed, if all of the present ones are in use at once. So the
 * kernel gets as many as have ever been filled in one go, and an idle loop's stay warm.
 */
void mr_ring_add_buffer(mr_loop *loop, mr_ring *state);

/* Takes the buffer that the kernel has chosen, and gives it another one in its place. */
mr_buffer *mr_ring_take_chosen(mr_loop *loop, mr_ring *state, const struct io_uring_cqe *entry);

/* prepare.c */

/*
 * Operations that are attempted here and, if they would block, again when the socket is ready: a file has no operation
 * of io_uring's that does it in one step, a connect could not be submitted again after the thread that had submitted
 * it has ended (EALREADY), and older kernels choose no buffers.
 */
bool mr_ring_is_attempted(const mr_ring *state, const mr_slot *slot);

void mr_ring_prepare(const mr_ring *state, struct io_uring_sqe *entry, mr_slot *slot);

/* queue.c */

/* An entry of the ring, or NULL if it is full. */
struct io_uring_sqe *mr_ring_next_entry(mr_loop *loop, mr_ring *state);

/* Hands all entries to the kernel, which may leave some. */
void mr_ring_flush(mr_loop *loop, mr_ring *state);

/* Begins an operation: now, or when there is room in the ring. */
void mr_ring_enqueue(mr_loop *loop, mr_slot *slot);

void mr_ring_prepare_cancel(struct io_uring_sqe *entry, mr_slot *slot);
void mr_ring_push_backlog(mr_ring *state, mr_slot *slot, mr_ring_queue purpose);
void mr_ring_leave_backlog(mr_ring *state, mr_slot *slot);
void mr_ring_submit_backlog(mr_loop *loop, mr_ring *state);

/* edges.c */

/* Must an operation that was answered so wait for an edge, because the ring's own poll would answer again at once? */
bool mr_ring_waits_for_edge(const mr_ring *state, const mr_slot *slot, int32_t answer);

/*
 * What is watched has reported what was there before; some of that may have been another's. So it is attempted once more
 * before it waits for what comes. True when it waits, or has ended; false without memory for it: then it is begun again.
 */
bool mr_ring_wait_for_edge(mr_loop *loop, mr_slot *slot);

void mr_ring_leave_edges(mr_ring *state, mr_slot *slot);
void mr_ring_arm_edges(mr_loop *loop, mr_ring *state);
void mr_ring_note_edges(mr_loop *loop, mr_ring *state);
void mr_ring_detach(mr_loop *loop, mr_descriptor *descriptor);

/* io_uring.c */

void mr_ring_submit(mr_loop *loop, mr_slot *slot);

#endif
