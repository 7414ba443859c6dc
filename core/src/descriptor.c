/* descriptor.c: the table of a loop's descriptors; see descriptor.h. */
#include "descriptor.h"
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool grow_descriptor_chunks(mr_loop *loop, uint32_t wanted)
{
    mr_descriptor **chunks = realloc(loop->descriptor_chunks, wanted * sizeof *chunks);
    if (!chunks)
        return false;
    memset(chunks + loop->descriptor_chunk_count, 0, (wanted - loop->descriptor_chunk_count) * sizeof *chunks);
    loop->descriptor_chunks = chunks;
    loop->descriptor_chunk_count = wanted;
    return true;
}

mr_descriptor *mr_descriptor_create(mr_loop *loop, int number)
{
    uint32_t chunk = (uint32_t)number / MR_DESCRIPTOR_CHUNK;
    if (chunk >= loop->descriptor_chunk_count && !grow_descriptor_chunks(loop, chunk + 1))
        return NULL;
    if (!loop->descriptor_chunks[chunk]) {
        mr_descriptor *fresh = calloc(MR_DESCRIPTOR_CHUNK, sizeof *fresh);
        if (!fresh)
            return NULL;
        for (int i = 0; i < MR_DESCRIPTOR_CHUNK; i++) {
            fresh[i].number = (int)chunk * MR_DESCRIPTOR_CHUNK + i;
            fresh[i].timers[MR_READING].position.owner = MR_TIMER_OF_READING;
            fresh[i].timers[MR_WRITING].position.owner = MR_TIMER_OF_WRITING;
        }
        loop->descriptor_chunks[chunk] = fresh;
    }
    return &loop->descriptor_chunks[chunk][(uint32_t)number % MR_DESCRIPTOR_CHUNK];
}

void mr_descriptor_forget(mr_descriptor *descriptor)
{
    descriptor->generation = 0;
    descriptor->detaching = false;
    descriptor->may_have_deadline[MR_READING] = descriptor->may_have_deadline[MR_WRITING] = false;
    memset(&descriptor->backend_data, 0, sizeof descriptor->backend_data);
}

void mr_descriptor_note_deadlines(mr_descriptor *descriptor)
{
    for (int direction = 0; direction < MR_DIRECTIONS; direction++)
        descriptor->may_have_deadline[direction] =
            atomic_load_explicit(&descriptor->deadlines_ns[direction], memory_order_relaxed) != MR_NO_DEADLINE;
}

int mr_descriptor_use(mr_loop *loop, mr_handle handle, mr_descriptor **record)
{
    int number = mr_handle_descriptor(handle);
    uint32_t generation = mr_handle_generation(handle);
    if (number < 0 || number >= MR_DESCRIPTORS_MAX) /* a table up to there would take 64 MiB */
        return -EBADF;
    mr_descriptor *descriptor = mr_loop_descriptor(loop, number);
    if (!descriptor)
        return -ENOMEM;
    *record = descriptor;
    if (generation == 0 || descriptor->generation == generation)
        return descriptor->detaching ? -EBADF : 0; /* a close waits for operations that began before it */
    int error = mr_handle_join(&loop->group->handles, handle, loop->index);
    if (error)
        return error;
    if (descriptor->generation != 0) /* another loop or thread has closed its descriptor */
        mr_descriptor_forget(descriptor);
    descriptor->generation = generation;
    descriptor->deadlines_ns = mr_handle_deadlines_ns(&loop->group->handles, handle);
    mr_descriptor_note_deadlines(descriptor);
    return 0;
}

int mr_descriptor_resolve(mr_loop *loop, mr_request *request)
{
    if (mr_handle_generation(request->handle) != 0)
        return 0;
    return mr_handle_of_number(&loop->group->handles, mr_handle_descriptor(request->handle), &request->handle);
}

mr_descriptor *mr_descriptor_joined(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = mr_loop_descriptor(loop, mr_handle_descriptor(handle));
    return descriptor && descriptor->generation == mr_handle_generation(handle) ? descriptor : NULL;
}
