/*
 * slot.h: the record of an operation in its loop. It is used again after its owner has released it.
 *
 * Must not know: backends, system calls.
 */
#ifndef MILLRACE_SLOT_H
#define MILLRACE_SLOT_H

#include "handle.h"
#include "millrace.h"
#include "operation.h"
#include "timer.h"

#include <stdbool.h>

/* The life of a slot. */
typedef enum mr_slot_state {
    MR_SLOT_FREE,
    MR_SLOT_RESERVED,
    MR_SLOT_PENDING,   /* in flight, in the backend */
    MR_SLOT_BACKOFF,   /* pausing; its timer submits it to the backend again */
    MR_SLOT_COMPLETED, /* on the list of completions */
    MR_SLOT_DELIVERED  /* polled; the token is not released yet */
} mr_slot_state;

/* Space for a type of the loop's backend: its data of an operation or a descriptor. */
typedef struct mr_backend_data {
    _Alignas(4) unsigned char bytes[8];
} mr_backend_data;

typedef struct mr_slot {
    mr_timer timer; /* first: a timer that fires is cast back to its slot */
    struct mr_slot *next;
    struct mr_slot *previous; /* neighbours among the operations of one direction of a descriptor */
    struct mr_slot *queued;   /* successor on the free list, the list of completions, or a queue of the backend */
    struct mr_descriptor *descriptor;
    mr_request request;
    mr_token token;
    int64_t result;
    uint64_t transferred;
    mr_buffer *borrowed;  /* MR_BORROW: once bytes are in it */
    void *backend_memory; /* allocated by the backend; freed when the operation has ended */
    int end_reason;       /* 0, or the error that the operation was asked to end with */
    uint16_t backoff_ms;
    uint8_t state;
    bool has_begun;               /* CONNECT: the system has begun to connect */
    mr_backend_data backend_data; /* zero when the operation begins */
} mr_slot;

/* Creates a reserved slot; NULL without memory. */
mr_slot *mr_slot_create(mr_loop *loop);

/* Frees a slot, which makes its token stale. */
void mr_slot_free(mr_loop *loop, mr_slot *slot);

/* The slot of a token, or NULL if it is stale. */
mr_slot *mr_loop_find(mr_loop *loop, mr_token token);

/* The most bytes of a file that one attempt moves, because the caller may have to wait for them. */
#define MR_FILE_BYTES_MAX (UINT64_C(1) << 20)

static inline size_t mr_file_bytes(const mr_request *request)
{
    return (size_t)(request->length < MR_FILE_BYTES_MAX ? request->length : MR_FILE_BYTES_MAX);
}

static inline int mr_slot_number(const mr_slot *slot)
{
    return mr_handle_descriptor(slot->request.handle);
}

#endif
