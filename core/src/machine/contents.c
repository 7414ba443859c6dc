/*
 * contents.c: what files of a simulated machine hold, and what the disk has of it. Must not know: backends.
 *
 * A file has its bytes twice: as they are, and as the disk has them. Between the two are its changes, in order. A sync
 * brings them to the disk. So does the machine by itself when there are many, as systems do. What a crash leaves is
 * computed from the disk's bytes and the changes.
 */
#include "machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECTOR_BYTES = 512, /* what a disk writes whole */
    CHANGED_BYTES_MOST = 1 << 22
};

/* ------------------------------------------------------------------------------------------------------ bytes --- */

static bool reserve(mr_extent *extent, size_t size)
{
    if (size <= extent->capacity)
        return true;
    size_t capacity = extent->capacity * 2 > size ? extent->capacity * 2 : size;
    unsigned char *grown = realloc(extent->bytes, capacity);
    if (!grown)
        return false;
    memset(grown + extent->capacity, 0, capacity - extent->capacity);
    extent->bytes = grown;
    extent->capacity = capacity;
    return true;
}

static bool set_size(mr_extent *extent, size_t size)
{
    if (!reserve(extent, size))
        return false;
    if (size < extent->size)
        memset(extent->bytes + size, 0, extent->size - size);
    extent->size = size;
    return true;
}

static bool put(mr_extent *extent, size_t offset, const void *bytes, size_t count)
{
    if (!reserve(extent, offset + count))
        return false;
    if (count)
        memcpy(extent->bytes + offset, bytes, count);
    return true;
}

/* --------------------------------------------------------------------------------------------------- lifetime --- */

mr_contents *mr_contents_new(mr_machine *machine, bool is_directory, uint32_t permissions)
{
    mr_contents *contents = calloc(1, sizeof *contents);
    if (!contents)
        return NULL;
    contents->number = ++machine->next_contents;
    contents->is_directory = is_directory;
    contents->permissions = contents->stored_permissions = permissions;
    contents->modified_ns = mr_machine_now_ns(machine);
    return contents;
}

void mr_contents_hold(mr_contents *contents)
{
    if (contents)
        contents->references++;
}

void mr_contents_forget_changes(mr_contents *contents)
{
    while (contents->changes) {
        mr_change *change = contents->changes;
        contents->changes = change->next;
        free(change);
    }
    contents->last_change = NULL;
    contents->changed_bytes = 0;
}

void mr_contents_release(mr_machine *machine, mr_contents *contents)
{
    if (!contents || --contents->references > 0)
        return;
    mr_directory_free_entries(machine, contents);
    mr_contents_forget_changes(contents);
    free(contents->now.bytes);
    free(contents->stored.bytes);
    free(contents);
}

void mr_contents_use(mr_machine *machine, mr_contents *contents, int names, int opens)
{
    bool was_used = contents->names + contents->opens > 0;
    contents->names += (uint32_t)names;
    contents->opens += (uint32_t)opens;
    bool is_used = contents->names + contents->opens > 0;
    if (was_used && !is_used)
        machine->state.disk_bytes -= contents->now.size;
    else if (!was_used && is_used)
        machine->state.disk_bytes += contents->now.size;
}

/* ---------------------------------------------------------------------------------------------------- changes --- */

static bool apply(mr_extent *extent, const mr_change *change)
{
    size_t offset = (size_t)change->offset;
    if (change->is_resize)
        return set_size(extent, offset);
    size_t end = offset + change->count;
    return put(extent, offset, change->bytes, change->count) && (end <= extent->size || set_size(extent, end));
}

/* Without memory for the disk's bytes, the machine keeps the changes. */
static bool write_back(mr_contents *contents)
{
    for (const mr_change *change = contents->changes; change; change = change->next)
        if (!apply(&contents->stored, change))
            return false;
    mr_contents_forget_changes(contents);
    return true;
}

static bool note_change(mr_contents *contents, const mr_change *what, const void *bytes)
{
    if (contents->changed_bytes > CHANGED_BYTES_MOST)
        write_back(contents);
    mr_change *change = malloc(sizeof *change + what->count);
    if (!change)
        return false;
    *change = *what;
    if (what->count)
        memcpy(change->bytes, bytes, what->count);
    if (contents->last_change)
        contents->last_change->next = change;
    else
        contents->changes = change;
    contents->last_change = change;
    contents->changed_bytes += sizeof *change + what->count;
    return true;
}

void mr_contents_sync(mr_contents *contents)
{
    write_back(contents);
    contents->stored_permissions = contents->permissions;
}

/* ------------------------------------------------------------------------------------------- reading and writing --- */

/* The size that the file may grow to, at most `wanted`. */
static uint64_t size_possible(const mr_machine *machine, const mr_contents *contents, uint64_t wanted)
{
    uint64_t most = machine->plan.disk_bytes, size = contents->now.size;
    if (!most || wanted <= size)
        return wanted;
    uint64_t left = most > machine->state.disk_bytes ? most - machine->state.disk_bytes : 0;
    return wanted - size <= left ? wanted : size + left;
}

static bool change_size(mr_machine *machine, mr_contents *contents, size_t size)
{
    size_t before = contents->now.size;
    if (!set_size(&contents->now, size))
        return false;
    machine->state.disk_bytes += size;
    machine->state.disk_bytes -= before;
    return true;
}

size_t mr_contents_read(const mr_contents *contents, void *buffer, size_t size, uint64_t offset)
{
    if (offset >= contents->now.size || size == 0)
        return 0;
    size_t left = contents->now.size - (size_t)offset;
    size = size < left ? size : left;
    memcpy(buffer, contents->now.bytes + offset, size);
    return size;
}

ssize_t mr_contents_write(mr_machine *machine, mr_contents *contents, const void *data, size_t size, uint64_t offset)
{
    if (size == 0)
        return 0;
    if (offset > INT64_MAX - size)
        return -EFBIG;
    uint64_t end = size_possible(machine, contents, offset + size);
    if (end <= offset)
        return -ENOSPC;
    size_t count = (size_t)(end - offset);
    if (!reserve(&contents->now, (size_t)end) ||
        !note_change(contents, &(mr_change){.offset = offset, .count = count}, data))
        return -ENOSPC;
    if (end > contents->now.size)
        change_size(machine, contents, (size_t)end);
    memcpy(contents->now.bytes + offset, data, count);
    contents->modified_ns = mr_machine_now_ns(machine);
    return (ssize_t)count;
}

int mr_contents_resize(mr_machine *machine, mr_contents *contents, uint64_t size)
{
    if (size == contents->now.size)
        return 0;
    if (size > INT64_MAX || size_possible(machine, contents, size) < size || !reserve(&contents->now, (size_t)size) ||
        !note_change(contents, &(mr_change){.offset = size, .is_resize = true}, NULL))
        return -ENOSPC;
    change_size(machine, contents, (size_t)size);
    contents->modified_ns = mr_machine_now_ns(machine);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ crash --- */

/* Of a write, any sectors may have come to the disk, and the new size with or without them. */
static bool apply_partly(mr_machine *machine, mr_extent *extent, const mr_change *change,
                         bool (*keeps)(mr_machine *machine))
{
    size_t offset = (size_t)change->offset, done = 0;
    if (change->is_resize)
        return !keeps(machine) || set_size(extent, offset);
    while (done < change->count) {
        size_t part = SECTOR_BYTES - (offset + done) % SECTOR_BYTES;
        part = part < change->count - done ? part : change->count - done;
        if (keeps(machine) && !put(extent, offset + done, change->bytes + done, part))
            return false;
        done += part;
    }
    return offset + done <= extent->size || !keeps(machine) || set_size(extent, offset + done);
}

void mr_contents_crash(mr_machine *machine, mr_contents *contents, bool (*keeps)(mr_machine *machine))
{
    for (const mr_change *change = contents->changes; change; change = change->next)
        if (!apply_partly(machine, &contents->stored, change, keeps))
            break; /* without memory: as if the rest was lost */
    mr_contents_forget_changes(contents);
    mr_extent *stored = &contents->stored;
    if (stored->capacity > stored->size)
        memset(stored->bytes + stored->size, 0, stored->capacity - stored->size);
    contents->now.size = 0;
    if (contents->now.capacity)
        memset(contents->now.bytes, 0, contents->now.capacity);
    if (put(&contents->now, 0, stored->bytes, stored->size))
        contents->now.size = stored->size;
    if (contents->permissions != contents->stored_permissions && keeps(machine))
        contents->stored_permissions = contents->permissions;
    contents->permissions = contents->stored_permissions;
}
