/* buffers.c: provided buffers, from which the kernel chooses one for a receive without a buffer. */
#include "buffers.h"
#include "ring.h"

#include <sys/mman.h>

bool mr_io_uring_without_buffer_rings; /* see backend.h */

static size_t buffer_ring_bytes(void)
{
    return BUFFERS_MAX * sizeof(struct io_uring_buf);
}

/* Provides a buffer with this identifier, which has none. Returns false if there is no memory. */
static bool add_kernel_buffer(mr_loop *loop, mr_ring *state, unsigned short id)
{
    state->buffers[id] = mr_buffers_alloc(&loop->buffers);
    if (!state->buffers[id])
        return false;
    io_uring_buf_ring_add(state->buffer_ring, state->buffers[id]->bytes, MR_BUFFER_BYTES, id,
                          io_uring_buf_ring_mask(BUFFERS_MAX), 0);
    io_uring_buf_ring_advance(state->buffer_ring, 1);
    return true;
}

void mr_ring_add_buffer(mr_loop *loop, mr_ring *state)
{
    for (unsigned short id = 0; state->buffers_missing && id < state->buffer_count; id++)
        if (!state->buffers[id] && add_kernel_buffer(loop, state, id))
            state->buffers_missing--;
    if (state->buffer_count < BUFFERS_MAX && add_kernel_buffer(loop, state, state->buffer_count))
        state->buffer_count++;
}

mr_buffer *mr_ring_take_chosen(mr_loop *loop, mr_ring *state, const struct io_uring_cqe *entry)
{
    unsigned short id = (unsigned short)(entry->flags >> IORING_CQE_BUFFER_SHIFT);
    MR_CHECK(id < state->buffer_count && state->buffers[id]);
    mr_buffer *chosen = state->buffers[id];
    if (!add_kernel_buffer(loop, state, id))
        state->buffers_missing++;
    return chosen;
}

void mr_ring_open_buffers(mr_ring *state)
{
    if (mr_io_uring_without_buffer_rings)
        return;
    void *memory = mmap(NULL, buffer_ring_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)memory, .ring_entries = BUFFERS_MAX, .bgid = BUFFER_GROUP};
    if (madvise(memory, buffer_ring_bytes(), MADV_DONTFORK) < 0 ||
        io_uring_register_buf_ring(&state->ring, &registration, 0) < 0) {
        munmap(memory, buffer_ring_bytes());
        return;
    }
    state->buffer_ring = memory;
    io_uring_buf_ring_init(state->buffer_ring);
}

void mr_ring_free_buffers(mr_ring *state)
{
    for (int id = 0; id < state->buffer_count; id++)
        mr_buffer_destroy(state->buffers[id]);
}

void mr_ring_close_buffers(mr_ring *state)
{
    if (state->buffer_ring)
        munmap(state->buffer_ring, buffer_ring_bytes());
    mr_ring_free_buffers(state);
}
