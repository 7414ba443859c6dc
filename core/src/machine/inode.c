/*
 * inode.c: files and directories of a simulated machine, with their bytes in memory and on the disk. Must not know:
 * backends.
 *
 * A file has its bytes twice: as programs see them, and as the disk has them. A list has the changes between the two,
 * in order. A sync applies them to the disk; so does the machine by itself when there are many, as systems do. A crash
 * keeps the disk's bytes and a part of the changes.
 */
#include "inode.h"

#include "directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECTOR_BYTES = 512, /* the unit that a disk writes whole */
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

mr_inode *mr_inode_new(mr_machine *machine, bool is_directory, uint32_t permissions)
{
    mr_inode *inode = calloc(1, sizeof *inode);
    if (!inode)
        return NULL;
    inode->number = ++machine->next_inode;
    inode->is_directory = is_directory;
    inode->permissions = inode->stored_permissions = permissions;
    inode->modified_ns = mr_machine_now_ns(machine);
    return inode;
}

void mr_inode_hold(mr_inode *inode)
{
    if (inode)
        inode->references++;
}

void mr_inode_forget_changes(mr_inode *inode)
{
    while (inode->changes) {
        mr_change *change = inode->changes;
        inode->changes = change->next;
        free(change);
    }
    inode->last_change = NULL;
    inode->changed_bytes = 0;
}

void mr_inode_release(mr_machine *machine, mr_inode *inode)
{
    if (!inode || --inode->references > 0)
        return;
    mr_directory_free_entries(machine, inode);
    mr_inode_forget_changes(inode);
    free(inode->now.bytes);
    free(inode->stored.bytes);
    free(inode);
}

void mr_inode_use(mr_machine *machine, mr_inode *inode, int names, int opens)
{
    bool was_used = inode->names + inode->opens > 0;
    inode->names += (uint32_t)names;
    inode->opens += (uint32_t)opens;
    bool is_used = inode->names + inode->opens > 0;
    if (was_used && !is_used)
        machine->state.disk_bytes -= inode->now.size;
    else if (!was_used && is_used)
        machine->state.disk_bytes += inode->now.size;
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

/* Applies the changes to the disk. Without memory for that, the list keeps them. */
static bool write_back(mr_inode *inode)
{
    for (const mr_change *change = inode->changes; change; change = change->next)
        if (!apply(&inode->stored, change))
            return false;
    mr_inode_forget_changes(inode);
    return true;
}

static bool note_change(mr_inode *inode, const mr_change *what, const void *bytes)
{
    if (inode->changed_bytes > CHANGED_BYTES_MOST)
        write_back(inode);
    mr_change *change = malloc(sizeof *change + what->count);
    if (!change)
        return false;
    *change = *what;
    if (what->count)
        memcpy(change->bytes, bytes, what->count);
    if (inode->last_change)
        inode->last_change->next = change;
    else
        inode->changes = change;
    inode->last_change = change;
    inode->changed_bytes += sizeof *change + what->count;
    return true;
}

void mr_inode_sync(mr_inode *inode)
{
    write_back(inode);
    inode->stored_permissions = inode->permissions;
}

/* ------------------------------------------------------------------------------------------ reading and writing --- */

/* The size that the file may grow to, at most `wanted`. */
static uint64_t size_possible(const mr_machine *machine, const mr_inode *inode, uint64_t wanted)
{
    uint64_t most = machine->plan.disk_bytes, size = inode->now.size;
    if (!most || wanted <= size)
        return wanted;
    uint64_t left = most > machine->state.disk_bytes ? most - machine->state.disk_bytes : 0;
    return wanted - size <= left ? wanted : size + left;
}

static bool change_size(mr_machine *machine, mr_inode *inode, size_t size)
{
    size_t before = inode->now.size;
    if (!set_size(&inode->now, size))
        return false;
    machine->state.disk_bytes += size;
    machine->state.disk_bytes -= before;
    return true;
}

size_t mr_inode_read(const mr_inode *inode, void *buffer, size_t size, uint64_t offset)
{
    if (offset >= inode->now.size || size == 0)
        return 0;
    size_t left = inode->now.size - (size_t)offset;
    size = size < left ? size : left;
    memcpy(buffer, inode->now.bytes + offset, size);
    return size;
}

ssize_t mr_inode_write(mr_machine *machine, mr_inode *inode, const void *data, size_t size, uint64_t offset)
{
    if (size == 0)
        return 0;
    if (offset > INT64_MAX - size)
        return -EFBIG;
    uint64_t end = size_possible(machine, inode, offset + size);
    if (end <= offset)
        return -ENOSPC;
    size_t count = (size_t)(end - offset);
    if (!reserve(&inode->now, (size_t)end) || !note_change(inode, &(mr_change){.offset = offset, .count = count}, data))
        return -ENOSPC;
    if (end > inode->now.size)
        change_size(machine, inode, (size_t)end);
    memcpy(inode->now.bytes + offset, data, count);
    inode->modified_ns = mr_machine_now_ns(machine);
    return (ssize_t)count;
}

int mr_inode_resize(mr_machine *machine, mr_inode *inode, uint64_t size)
{
    if (size == inode->now.size)
        return 0;
    if (size > INT64_MAX || size_possible(machine, inode, size) < size || !reserve(&inode->now, (size_t)size) ||
        !note_change(inode, &(mr_change){.offset = size, .is_resize = true}, NULL))
        return -ENOSPC;
    change_size(machine, inode, (size_t)size);
    inode->modified_ns = mr_machine_now_ns(machine);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ crash --- */

/* Applies a part of a change: any sectors of a write, and the new size with or without them. */
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

void mr_inode_crash(mr_machine *machine, mr_inode *inode, bool (*keeps)(mr_machine *machine))
{
    for (const mr_change *change = inode->changes; change; change = change->next)
        if (!apply_partly(machine, &inode->stored, change, keeps))
            break; /* without memory, as if the rest was lost */
    mr_inode_forget_changes(inode);
    mr_extent *stored = &inode->stored;
    if (stored->capacity > stored->size)
        memset(stored->bytes + stored->size, 0, stored->capacity - stored->size);
    inode->now.size = 0;
    if (inode->now.capacity)
        memset(inode->now.bytes, 0, inode->now.capacity);
    if (put(&inode->now, 0, stored->bytes, stored->size))
        inode->now.size = stored->size;
    if (inode->permissions != inode->stored_permissions && keeps(machine))
        inode->stored_permissions = inode->permissions;
    inode->permissions = inode->stored_permissions;
}
