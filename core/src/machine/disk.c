/* disk.c: files of a simulated machine, with and without names, and the space they take. */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------------- contents --- */

static void free_contents(mr_machine *machine, mr_contents *contents)
{
    machine->state.disk_bytes -= contents->size;
    free(contents->path);
    free(contents->bytes);
    free(contents);
}

static void release(mr_machine *machine, mr_contents *contents)
{
    if (--contents->references == 0)
        free_contents(machine, contents);
}

/* A file without a name exists while it is open. A name counts as one more reference. */
static mr_contents *new_contents(void)
{
    return calloc(1, sizeof(mr_contents));
}

static mr_contents *new_named(mr_machine *machine, const char *path)
{
    mr_contents *contents = new_contents();
    if (!contents)
        return NULL;
    contents->path = strdup(path);
    if (!contents->path) {
        free(contents);
        return NULL;
    }
    contents->references = 1;
    contents->next = machine->named;
    machine->named = contents;
    return contents;
}

static mr_contents **find_name(mr_machine *machine, const char *path)
{
    mr_contents **place = &machine->named;
    while (*place && strcmp((*place)->path, path) != 0)
        place = &(*place)->next;
    return place;
}

static void remove_name(mr_machine *machine, mr_contents **place)
{
    mr_contents *contents = *place;
    *place = contents->next;
    release(machine, contents);
}

void mr_disk_free(mr_machine *machine)
{
    while (machine->named)
        remove_name(machine, &machine->named);
}

/* The size that the file may grow to, at most `wanted`. */
static uint64_t size_possible(const mr_machine *machine, const mr_contents *contents, uint64_t wanted)
{
    uint64_t most = machine->plan.disk_bytes;
    if (!most || wanted <= contents->size)
        return wanted;
    uint64_t left = most > machine->state.disk_bytes ? most - machine->state.disk_bytes : 0;
    return wanted - contents->size <= left ? wanted : contents->size + left;
}

static void set_size(mr_machine *machine, mr_contents *contents, size_t size)
{
    machine->state.disk_bytes += size;
    machine->state.disk_bytes -= contents->size;
    contents->size = size;
}

/* The bytes between the old end and the new one are zeros. */
static bool grow(mr_machine *machine, mr_contents *contents, size_t size)
{
    if (size > contents->capacity) {
        size_t capacity = contents->capacity * 2 > size ? contents->capacity * 2 : size;
        unsigned char *grown = realloc(contents->bytes, capacity);
        if (!grown)
            return false;
        contents->bytes = grown;
        contents->capacity = capacity;
    }
    memset(contents->bytes + contents->size, 0, size - contents->size);
    set_size(machine, contents, size);
    return true;
}

static size_t read_at(const mr_contents *contents, void *buffer, size_t size, uint64_t offset)
{
    if (offset >= contents->size || size == 0)
        return 0;
    size_t left = contents->size - (size_t)offset;
    size = size < left ? size : left;
    memcpy(buffer, contents->bytes + offset, size);
    return size;
}

/* Writes as much as fits; ENOSPC if nothing does (write(2)). */
static ssize_t write_at(mr_machine *machine, mr_contents *contents, const void *data, size_t size, uint64_t offset)
{
    if (size == 0)
        return 0;
    if (offset > INT64_MAX - size)
        return -EFBIG;
    uint64_t end = size_possible(machine, contents, offset + size);
    if (end <= offset)
        return -ENOSPC;
    if (end > contents->size && !grow(machine, contents, (size_t)end))
        return -ENOSPC;
    memcpy(contents->bytes + offset, data, (size_t)(end - offset));
    return (ssize_t)(end - offset);
}

/* --------------------------------------------------------------------------------------------------- open files --- */

ssize_t mr_disk_read(mr_bytes_file *file, void *buffer, size_t size)
{
    if (!file->can_read)
        return -EBADF;
    size_t result = read_at(file->contents, buffer, size, file->position);
    file->position += result;
    return (ssize_t)result;
}

ssize_t mr_disk_write(mr_machine *machine, mr_bytes_file *file, const void *data, size_t size)
{
    if (!file->can_write)
        return -EBADF;
    ssize_t result = write_at(machine, file->contents, data, size, file->position);
    if (result > 0)
        file->position += (uint64_t)result;
    return result;
}

void mr_disk_close(mr_machine *machine, mr_bytes_file *file)
{
    release(machine, file->contents);
    free(file);
}

static int install(mr_machine *machine, mr_contents *contents, int flags)
{
    int access = flags & O_ACCMODE;
    mr_bytes_file *file = calloc(1, sizeof *file);
    if (!file)
        return -ENOMEM;
    *file = (mr_bytes_file){.file.kind = MR_FILE_BYTES,
                            .contents = contents,
                            .can_read = access != O_WRONLY,
                            .can_write = access != O_RDONLY};
    int number = mr_machine_install(machine, &file->file, 0);
    if (number < 0)
        free(file);
    else
        contents->references++;
    return number;
}

int mr_machine_file(mr_machine *machine)
{
    mr_machine_lock(machine);
    mr_contents *contents = new_contents();
    int number = contents ? install(machine, contents, O_RDWR) : -ENOMEM;
    if (number < 0 && contents)
        free_contents(machine, contents);
    mr_machine_unlock(machine);
    return number;
}

static int open_named(mr_machine *machine, const char *path, int flags)
{
    int error = mr_machine_check_room(machine);
    mr_contents *contents = *find_name(machine, path);
    if (error)
        return error;
    if (contents && (flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (!contents && !(flags & O_CREAT))
        return -ENOENT;
    if (!contents && !(contents = new_named(machine, path)))
        return -ENOMEM;
    if (flags & O_TRUNC)
        set_size(machine, contents, 0);
    return install(machine, contents, flags);
}

int mr_machine_open(mr_machine *machine, const char *path, int flags)
{
    mr_machine_lock(machine);
    unsigned applicable = 1u << MR_FAULT_NO_DESCRIPTORS | (flags & O_CREAT ? 1u << MR_FAULT_DISK_FULL : 0);
    mr_fault fault = mr_machine_next_fault(machine, applicable);
    int number = fault == MR_FAULT_NO_DESCRIPTORS ? -EMFILE
                 : fault == MR_FAULT_DISK_FULL    ? -ENOSPC
                                                  : open_named(machine, path, flags);
    MR_TRACE(machine, "open %s result %d", path, number);
    mr_machine_unlock(machine);
    return number;
}

int mr_machine_unlink(mr_machine *machine, const char *path)
{
    mr_machine_lock(machine);
    mr_contents **place = find_name(machine, path);
    int result = *place ? 0 : -ENOENT;
    if (*place)
        remove_name(machine, place);
    MR_TRACE(machine, "unlink %s result %d", path, result);
    mr_machine_unlock(machine);
    return result;
}

/* -------------------------------------------------------------------------------------------------- by number --- */

/* Locks the machine and finds a file on the disk. If there is none, unlocks it again and returns the error. */
static mr_bytes_file *lock_file(mr_machine *machine, int number, int error_of_others, int *error)
{
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, number);
    *error = !file ? -EBADF : file->kind != MR_FILE_BYTES ? error_of_others : 0;
    if (*error)
        mr_machine_unlock(machine);
    return *error ? NULL : (mr_bytes_file *)file;
}

ssize_t mr_machine_pread(mr_machine *machine, int number, void *buffer, size_t size, uint64_t offset)
{
    int error;
    mr_bytes_file *file = lock_file(machine, number, -ESPIPE, &error);
    if (!file)
        return error;
    ssize_t result = file->can_read ? (ssize_t)read_at(file->contents, buffer, size, offset) : -EBADF;
    mr_machine_unlock(machine);
    return result;
}

ssize_t mr_machine_pwrite(mr_machine *machine, int number, const void *data, size_t size, uint64_t offset)
{
    int error;
    mr_bytes_file *file = lock_file(machine, number, -ESPIPE, &error);
    if (!file)
        return error;
    ssize_t result = file->can_write ? write_at(machine, file->contents, data, size, offset) : -EBADF;
    mr_machine_unlock(machine);
    return result;
}

int mr_machine_fsync(mr_machine *machine, int number)
{
    int error;
    if (lock_file(machine, number, -EINVAL, &error))
        mr_machine_unlock(machine);
    return error;
}

int64_t mr_machine_size(mr_machine *machine, int number)
{
    int error;
    mr_bytes_file *file = lock_file(machine, number, -ESPIPE, &error);
    if (!file)
        return error;
    int64_t size = (int64_t)file->contents->size;
    mr_machine_unlock(machine);
    return size;
}

off_t mr_machine_seek(mr_machine *machine, int number, off_t offset, int whence)
{
    int error;
    mr_bytes_file *file = lock_file(machine, number, -ESPIPE, &error);
    if (!file)
        return error;
    off_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? (off_t)file->position : (off_t)file->contents->size;
    off_t result = base + offset < 0 ? -EINVAL : base + offset;
    if (result >= 0)
        file->position = (uint64_t)result;
    mr_machine_unlock(machine);
    return result;
}
