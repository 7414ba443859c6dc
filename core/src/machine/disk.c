/*
 * disk.c: calls on files of a simulated machine, by path and by descriptor number. Must not know: backends.
 */
#include "disk.h"

#include "descriptor_table.h"
#include "directory.h"
#include "inode.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef O_DIRECTORY
#define O_DIRECTORY 0
#endif

void mr_disk_free(mr_machine *machine)
{
    if (machine->root)
        mr_inode_use(machine, machine->root, -1, 0);
    mr_inode_release(machine, machine->root);
}

/* ------------------------------------------------------------------------------------------------------ power --- */

/* The call at which the power fails takes effect or not, at random. */
int mr_disk_begin(mr_machine *machine)
{
    if (machine->has_no_power)
        return -EIO;
    if (!machine->calls_until_failure || --machine->calls_until_failure > 0)
        return 0;
    machine->has_no_power = true;
    MR_TRACE(machine, "power fails");
    return mr_machine_draw(machine, 2) ? -EIO : 0;
}

int64_t mr_disk_end(const mr_machine *machine, int64_t result)
{
    return machine->has_no_power ? -EIO : result;
}

/* --------------------------------------------------------------------------------------------------- open files --- */

static int64_t read_from(mr_machine *machine, const mr_disk_file *file, void *buffer, size_t size, uint64_t offset)
{
    int error = mr_disk_begin(machine);
    if (error)
        return error;
    if (!file->inode)
        return -EIO;
    if (!file->can_read)
        return -EBADF;
    if (file->inode->is_directory)
        return -EISDIR;
    return mr_disk_end(machine, (int64_t)mr_inode_read(file->inode, buffer, size, offset));
}

static int64_t write_to(mr_machine *machine, const mr_disk_file *file, const void *data, size_t size, uint64_t offset)
{
    int error = mr_disk_begin(machine);
    if (error)
        return error;
    if (!file->inode)
        return -EIO;
    if (!file->can_write)
        return -EBADF;
    if (file->appends)
        offset = file->inode->now.size;
    return mr_disk_end(machine, mr_inode_write(machine, file->inode, data, size, offset));
}

ssize_t mr_disk_read(mr_machine *machine, mr_disk_file *file, void *buffer, size_t size)
{
    ssize_t result = (ssize_t)read_from(machine, file, buffer, size, file->position);
    if (result > 0)
        file->position += (uint64_t)result;
    return result;
}

ssize_t mr_disk_write(mr_machine *machine, mr_disk_file *file, const void *data, size_t size)
{
    ssize_t result = (ssize_t)write_to(machine, file, data, size, file->position);
    if (result > 0)
        file->position = file->appends ? file->inode->now.size : file->position + (uint64_t)result;
    return result;
}

void mr_disk_abandon(mr_machine *machine, mr_disk_file *file)
{
    if (!file->inode)
        return;
    mr_inode_use(machine, file->inode, 0, -1);
    mr_inode_release(machine, file->inode);
    file->inode = NULL;
}

void mr_disk_close(mr_machine *machine, mr_disk_file *file)
{
    mr_disk_abandon(machine, file);
    free(file);
}

static int install(mr_machine *machine, mr_inode *inode, int flags)
{
    int access = flags & O_ACCMODE;
    mr_disk_file *file = calloc(1, sizeof *file);
    if (!file)
        return -ENOMEM;
    *file = (mr_disk_file){.file.kind = MR_FILE_DISK,
                           .inode = inode,
                           .can_read = access != O_WRONLY,
                           .can_write = access != O_RDONLY,
                           .appends = flags & O_APPEND};
    int number = mr_machine_install(machine, &file->file, 0);
    if (number < 0) {
        free(file);
        return number;
    }
    mr_inode_hold(inode);
    mr_inode_use(machine, inode, 0, 1);
    return number;
}

int mr_machine_file(mr_machine *machine)
{
    mr_machine_lock(machine);
    mr_inode *inode = mr_inode_new(machine, false, 0600);
    mr_inode_hold(inode);
    int number = inode ? install(machine, inode, O_RDWR) : -ENOMEM;
    mr_inode_release(machine, inode);
    mr_machine_unlock(machine);
    return number;
}

/* ------------------------------------------------------------------------------------------------------ paths --- */

/* Creates a file or directory with this name. */
static int create(mr_machine *machine, const mr_location *location, bool is_directory, uint32_t permissions,
                  mr_inode **created)
{
    *created = mr_inode_new(machine, is_directory, permissions & 07777);
    if (!*created)
        return -ENOMEM;
    mr_inode_hold(*created);
    int error = mr_directory_set(machine, location, *created);
    mr_inode_release(machine, *created); /* the name holds it */
    return error;
}

static int check_kind(const mr_inode *inode, int flags)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
    if (inode->is_directory && writes)
        return -EISDIR;
    return O_DIRECTORY && flags & O_DIRECTORY && !inode->is_directory ? -ENOTDIR : 0;
}

static int open_named(mr_machine *machine, const char *path, int flags, uint32_t permissions)
{
    mr_location location;
    int error = mr_machine_check_limit(machine);
    if (!error)
        error = mr_directory_find(machine, path, &location);
    if (error)
        return error;
    mr_inode *inode = mr_directory_at(machine, &location);
    if (inode && (flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (!inode)
        error = flags & O_CREAT ? create(machine, &location, false, permissions, &inode) : -ENOENT;
    if (!error)
        error = check_kind(inode, flags);
    if (!error && flags & O_TRUNC)
        error = mr_inode_resize(machine, inode, 0);
    return error ? error : install(machine, inode, flags);
}

/* Opens nothing if the power fails meanwhile. */
static int open_with_power(mr_machine *machine, const char *path, int flags, uint32_t permissions)
{
    int error = mr_disk_begin(machine);
    int number = error ? error : open_named(machine, path, flags, permissions);
    if (number >= 0 && machine->has_no_power) {
        mr_machine_close(machine, number);
        return -EIO;
    }
    return number;
}

int mr_machine_open_with(mr_machine *machine, const char *path, int flags, uint32_t permissions)
{
    mr_machine_lock(machine);
    unsigned applicable = 1u << MR_FAULT_NO_DESCRIPTORS | (flags & O_CREAT ? 1u << MR_FAULT_DISK_FULL : 0);
    mr_fault fault = mr_machine_next_fault(machine, applicable);
    int number = fault == MR_FAULT_NO_DESCRIPTORS ? -EMFILE
                 : fault == MR_FAULT_DISK_FULL    ? -ENOSPC
                                                  : open_with_power(machine, path, flags, permissions);
    MR_TRACE(machine, "open %s result %d", path, number);
    mr_machine_unlock(machine);
    return number;
}

int mr_machine_open(mr_machine *machine, const char *path, int flags)
{
    return mr_machine_open_with(machine, path, flags, 0644);
}

static bool is_empty(const mr_inode *directory)
{
    for (const mr_entry *entry = directory->entries; entry; entry = entry->next)
        if (entry->now)
            return false;
    return true;
}

static int remove_named(mr_machine *machine, const char *path, bool is_directory)
{
    mr_location location;
    int error = mr_directory_find(machine, path, &location);
    const mr_inode *inode = error ? NULL : mr_directory_at(machine, &location);
    if (error)
        return error;
    if (!inode)
        return -ENOENT;
    if (!location.directory)
        return -EBUSY;
    if (inode->is_directory != is_directory)
        return is_directory ? -ENOTDIR : -EISDIR;
    if (is_directory && !is_empty(inode))
        return -ENOTEMPTY;
    return mr_directory_set(machine, &location, NULL);
}

static int make_directory(mr_machine *machine, const char *path, uint32_t permissions)
{
    mr_location location;
    mr_inode *created;
    int error = mr_directory_find(machine, path, &location);
    if (error)
        return error;
    return mr_directory_at(machine, &location) ? -EEXIST : create(machine, &location, true, permissions, &created);
}

static bool is_within(const mr_inode *directory, const mr_inode *outer)
{
    while (directory && directory != outer)
        directory = directory->parent;
    return directory;
}

static int check_rename(const mr_location *to, const mr_inode *what, const mr_inode *there, unsigned flags)
{
    if (!what || (flags & MR_MACHINE_EXCHANGE && !there))
        return -ENOENT;
    if (there && flags & MR_MACHINE_NO_REPLACE)
        return -EEXIST;
    if (what->is_directory && is_within(to->directory, what))
        return -EINVAL;
    if (!there || flags & MR_MACHINE_EXCHANGE || what == there)
        return 0;
    if (what->is_directory != there->is_directory)
        return there->is_directory ? -EISDIR : -ENOTDIR;
    return there->is_directory && !is_empty(there) ? -ENOTEMPTY : 0;
}

static int rename_named(mr_machine *machine, const char *from, const char *to, unsigned flags)
{
    mr_location old, new;
    int error = mr_directory_find(machine, from, &old);
    if (!error)
        error = mr_directory_find(machine, to, &new);
    if (error)
        return error;
    if (!old.directory || !new.directory)
        return -EBUSY;
    mr_inode *what = mr_directory_at(machine, &old), *there = mr_directory_at(machine, &new);
    error = check_rename(&new, what, there, flags);
    if (error || what == there)
        return error;
    mr_inode_hold(what);
    mr_inode_hold(there);
    bool exchanges = flags & MR_MACHINE_EXCHANGE;
    error = mr_directory_set(machine, &new, what);
    if (!error)
        error = mr_directory_set(machine, &old, exchanges ? there : NULL);
    mr_inode_release(machine, what);
    mr_inode_release(machine, there);
    return error;
}

static int link_named(mr_machine *machine, const char *from, const char *to)
{
    mr_location location;
    int error;
    mr_inode *inode = mr_directory_look_up(machine, from, &error);
    if (!error)
        error = mr_directory_find(machine, to, &location);
    if (error)
        return error;
    if (inode->is_directory)
        return -EPERM;
    return mr_directory_at(machine, &location) ? -EEXIST : mr_directory_set(machine, &location, inode);
}

static int set_permissions(mr_machine *machine, const char *path, uint32_t permissions)
{
    int error;
    mr_inode *inode = mr_directory_look_up(machine, path, &error);
    if (inode)
        inode->permissions = permissions & 07777;
    return error;
}

static int set_modified(mr_machine *machine, const char *path, uint64_t time_ns)
{
    int error;
    mr_inode *inode = mr_directory_look_up(machine, path, &error);
    if (inode)
        inode->modified_ns = time_ns;
    return error;
}

/* Makes a call on a path, if there is power. */
#define CALL_ON_PATH(machine, path, call)                                   \
    do {                                                                    \
        mr_machine_lock(machine);                                           \
        int result_ = mr_disk_begin(machine);                               \
        if (!result_)                                                       \
            result_ = (int)mr_disk_end(machine, call);                      \
        MR_TRACE(machine, "%s %s result %d", __func__ + 11, path, result_); \
        mr_machine_unlock(machine);                                         \
        return result_;                                                     \
    } while (0)

int mr_machine_unlink(mr_machine *machine, const char *path)
{
    CALL_ON_PATH(machine, path, remove_named(machine, path, false));
}

int mr_machine_rmdir(mr_machine *machine, const char *path)
{
    CALL_ON_PATH(machine, path, remove_named(machine, path, true));
}

int mr_machine_mkdir(mr_machine *machine, const char *path, uint32_t permissions)
{
    CALL_ON_PATH(machine, path, make_directory(machine, path, permissions));
}

int mr_machine_rename(mr_machine *machine, const char *from, const char *to, unsigned flags)
{
    CALL_ON_PATH(machine, from, rename_named(machine, from, to, flags));
}

int mr_machine_link(mr_machine *machine, const char *from, const char *to)
{
    CALL_ON_PATH(machine, from, link_named(machine, from, to));
}

int mr_machine_chmod(mr_machine *machine, const char *path, uint32_t permissions)
{
    CALL_ON_PATH(machine, path, set_permissions(machine, path, permissions));
}

int mr_machine_set_modified(mr_machine *machine, const char *path, uint64_t time_ns)
{
    CALL_ON_PATH(machine, path, set_modified(machine, path, time_ns));
}

static void describe(const mr_inode *inode, mr_machine_status *status)
{
    *status = (mr_machine_status){
        .number = inode->number,
        .size = inode->now.size,
        .names = inode->names,
        .permissions = inode->permissions,
        .modified_ns = inode->modified_ns,
        .is_directory = inode->is_directory,
    };
}

static int describe_named(mr_machine *machine, const char *path, mr_machine_status *status)
{
    int error;
    const mr_inode *inode = mr_directory_look_up(machine, path, &error);
    if (inode)
        describe(inode, status);
    return error;
}

int mr_machine_stat(mr_machine *machine, const char *path, mr_machine_status *status)
{
    CALL_ON_PATH(machine, path, describe_named(machine, path, status));
}

/* Finds the name with this index among those that mean a file. */
static int next_in(mr_machine *machine, const char *path, size_t index, char name[MR_NAME_BYTES], bool *is_directory)
{
    int error;
    const mr_inode *inode = mr_directory_look_up(machine, path, &error);
    if (error)
        return error;
    if (!inode->is_directory)
        return -ENOTDIR;
    for (const mr_entry *entry = inode->entries; entry; entry = entry->next)
        if (entry->now && index-- == 0) {
            memcpy(name, entry->name, strlen(entry->name) + 1);
            *is_directory = entry->now->is_directory;
            return 1;
        }
    return 0;
}

int mr_machine_list(mr_machine *machine, const char *path, size_t index, char name[MR_MACHINE_NAME_BYTES],
                    bool *is_directory)
{
    mr_machine_lock(machine);
    int result = machine->has_no_power ? -EIO : next_in(machine, path, index, name, is_directory);
    mr_machine_unlock(machine);
    return result;
}

/* -------------------------------------------------------------------------------------------------- by number --- */

/* Locks the machine and finds a file on the disk. If there is none, unlocks it again and returns the error. */
static mr_disk_file *lock_file(mr_machine *machine, int number, int error_of_others, int *error)
{
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, number);
    *error = !file ? -EBADF : file->kind != MR_FILE_DISK ? error_of_others : 0;
    if (*error)
        mr_machine_unlock(machine);
    return *error ? NULL : (mr_disk_file *)file;
}

ssize_t mr_machine_pread(mr_machine *machine, int number, void *buffer, size_t size, uint64_t offset)
{
    int error;
    mr_disk_file *file = lock_file(machine, number, -ESPIPE, &error);
    if (!file)
        return error;
    ssize_t result = (ssize_t)read_from(machine, file, buffer, size, offset);
    mr_machine_unlock(machine);
    return result;
}

ssize_t mr_machine_pwrite(mr_machine *machine, int number, const void *data, size_t size, uint64_t offset)
{
    int error;
    mr_disk_file *file = lock_file(machine, number, -ESPIPE, &error);
    if (!file)
        return error;
    ssize_t result = (ssize_t)write_to(machine, file, data, size, offset);
    mr_machine_unlock(machine);
    return result;
}

static int64_t sync_now(mr_machine *machine, const mr_disk_file *file)
{
    int error = mr_disk_begin(machine);
    if (error || !file->inode)
        return error ? error : -EIO;
    if (file->inode->is_directory)
        mr_directory_sync(machine, file->inode);
    else
        mr_inode_sync(file->inode);
    return mr_disk_end(machine, 0);
}

int mr_machine_fsync(mr_machine *machine, int number)
{
    int error;
    const mr_disk_file *file = lock_file(machine, number, -EINVAL, &error);
    if (!file)
        return error;
    error = (int)sync_now(machine, file);
    mr_machine_unlock(machine);
    return error;
}

void mr_disk_fail_sync(mr_machine *machine, int number)
{
    int error;
    const mr_disk_file *file = lock_file(machine, number, -EINVAL, &error);
    if (!file)
        return;
    if (file->inode && !file->inode->is_directory)
        mr_inode_forget_changes(file->inode);
    mr_machine_unlock(machine);
}

static int64_t resize_now(mr_machine *machine, const mr_disk_file *file, uint64_t size)
{
    int error = mr_disk_begin(machine);
    if (error || !file->inode)
        return error ? error : -EIO;
    if (!file->can_write)
        return -EINVAL;
    return mr_disk_end(machine, mr_inode_resize(machine, file->inode, size));
}

int mr_machine_truncate(mr_machine *machine, int number, uint64_t size)
{
    int error;
    const mr_disk_file *file = lock_file(machine, number, -EINVAL, &error);
    if (!file)
        return error;
    error = (int)resize_now(machine, file, size);
    mr_machine_unlock(machine);
    return error;
}

static int64_t set_permissions_now(mr_machine *machine, const mr_disk_file *file, uint32_t permissions)
{
    int error = mr_disk_begin(machine);
    if (error || !file->inode)
        return error ? error : -EIO;
    file->inode->permissions = permissions & 07777;
    return mr_disk_end(machine, 0);
}

int mr_machine_fchmod(mr_machine *machine, int number, uint32_t permissions)
{
    int error;
    const mr_disk_file *file = lock_file(machine, number, -EINVAL, &error);
    if (!file)
        return error;
    error = (int)set_permissions_now(machine, file, permissions);
    mr_machine_unlock(machine);
    return error;
}

int mr_machine_fstat(mr_machine *machine, int number, mr_machine_status *status)
{
    int error;
    const mr_disk_file *file = lock_file(machine, number, -EBADF, &error);
    if (!file)
        return error;
    if (file->inode)
        describe(file->inode, status);
    error = file->inode ? 0 : -EIO;
    mr_machine_unlock(machine);
    return error;
}

int mr_machine_file_call(mr_machine *machine, uint64_t *delay_ns)
{
    mr_machine_lock(machine);
    unsigned applicable = 1u << MR_FAULT_DELAY | 1u << MR_FAULT_DISK_FULL | 1u << MR_FAULT_IO_ERROR;
    mr_fault fault = mr_machine_next_fault(machine, applicable);
    *delay_ns = fault == MR_FAULT_DELAY ? mr_machine_delay_ns(machine) : 0;
    mr_machine_unlock(machine);
    return fault == MR_FAULT_DISK_FULL ? -ENOSPC : fault == MR_FAULT_IO_ERROR ? -EIO : 0;
}

int64_t mr_machine_size(mr_machine *machine, int number)
{
    int error;
    mr_disk_file *file = lock_file(machine, number, -ESPIPE, &error);
    if (!file)
        return error;
    int64_t size = file->inode ? (int64_t)file->inode->now.size : -EIO;
    mr_machine_unlock(machine);
    return size;
}

off_t mr_machine_seek(mr_machine *machine, int number, off_t offset, int whence)
{
    int error;
    mr_disk_file *file = lock_file(machine, number, -ESPIPE, &error);
    if (!file)
        return error;
    off_t base = whence == SEEK_SET   ? 0
                 : whence == SEEK_CUR ? (off_t)file->position
                                      : (off_t)(file->inode ? file->inode->now.size : 0);
    off_t result = base + offset < 0 ? -EINVAL : base + offset;
    if (result >= 0)
        file->position = (uint64_t)result;
    mr_machine_unlock(machine);
    return result;
}
