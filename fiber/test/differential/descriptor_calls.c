/* descriptor_calls.c: closing, duplicating, opening, locking and syncing descriptors. */
#include "calls.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static void call_close(world *w, outcome *o)
{
    o->result = close(w->descriptor);
    o->detail[0] = close(w->descriptor);
    o->detail[1] = errno;
}

static void call_close_range(world *w, outcome *o)
{
    unsigned number = (unsigned)w->descriptor;
    o->result = close_range(number, number, 0);
    o->detail[0] = fcntl(w->descriptor, F_GETFD);
    o->detail[1] = errno;
}

static void call_close_range_on_exec(world *w, outcome *o)
{
    unsigned number = (unsigned)w->descriptor;
    o->result = close_range(number, number, CLOSE_RANGE_CLOEXEC);
    o->detail[0] = fcntl(w->descriptor, F_GETFD);
}

static void call_close_range_backwards(world *w, outcome *o)
{
    unsigned number = (unsigned)w->descriptor;
    o->result = close_range(number, number - 1, 0);
    o->detail[0] = fcntl(w->descriptor, F_GETFD);
}

/* Uses a descriptor number above all others of this program. */
static void call_closefrom(world *w, outcome *o)
{
    enum { HIGH = 900 };
    o->result = dup2(w->descriptor, HIGH) == HIGH ? 0 : -1;
    o->error = errno;
    closefrom(HIGH);
    o->detail[0] = fcntl(HIGH, F_GETFD);
    o->detail[1] = fcntl(w->descriptor, F_GETFD);
    errno = o->error;
}

static void call_dup2(world *w, outcome *o)
{
    int target = dup(STDOUT_FILENO);
    o->result = dup2(w->descriptor, target) == target ? 0 : -1;
    o->error = errno;
    o->detail[0] = fcntl(target, F_GETFL);
    close(target);
    errno = o->error;
}

static void call_fionbio(world *w, outcome *o)
{
    int on = 1, off = 0;
    o->result = ioctl(w->descriptor, FIONBIO, &on);
    if (o->result == 0) {
        o->detail[0] = fcntl(w->descriptor, F_GETFL);
        o->detail[1] = read(w->descriptor, o->data, DATA_BYTES);
        o->detail[2] = o->detail[1] < 0 ? errno : 0;
        ioctl(w->descriptor, FIONBIO, &off);
    }
}

static void call_dup3(world *w, outcome *o)
{
    int target = dup(STDOUT_FILENO);
    o->result = dup3(w->descriptor, target, O_CLOEXEC) == target ? 0 : -1;
    o->error = errno;
    o->detail[0] = fcntl(target, F_GETFD);
    close(target);
    errno = o->error;
}

static void call_fdatasync(world *w, outcome *o)
{
    o->result = fdatasync(w->descriptor);
}

static void call_syncfs(world *w, outcome *o)
{
    o->result = syncfs(w->descriptor);
}

static void call_sync_file_range(world *w, outcome *o)
{
    o->result = sync_file_range(w->descriptor, 0, 4096, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

static void call_msync(world *w, outcome *o)
{
    long page = sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, w->descriptor, 0);
    o->result = msync(memory == MAP_FAILED ? NULL : memory, (size_t)page, MS_SYNC);
    o->error = errno;
    if (memory != MAP_FAILED)
        munmap(memory, (size_t)page);
    errno = o->error;
}

static void call_lockf(world *w, outcome *o)
{
    o->result = lockf(w->descriptor, F_LOCK, 4);
}

static void call_fsync(world *w, outcome *o)
{
    o->result = fsync(w->descriptor);
}

static void call_flock(world *w, outcome *o)
{
    o->result = flock(w->descriptor, LOCK_EX);
    o->detail[0] = flock(w->descriptor, LOCK_UN);
}

static void call_lock_record(world *w, outcome *o)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 4};
    o->result = fcntl(w->descriptor, F_SETLKW, &lock);
}

static void call_openat(world *w, outcome *o)
{
    int opened = openat(w->descriptor, "tmp", O_RDONLY | O_DIRECTORY);
    o->result = opened < 0 ? -1 : 0;
    if (opened >= 0)
        close(opened);
}

static const call calls[] = {
    {"close", NEED_NOTHING, false, false, call_close},
    {"close_range", NEED_NOTHING, false, false, call_close_range},
    {"close_range_on_exec", NEED_NOTHING, false, false, call_close_range_on_exec},
    {"close_range_backwards", NEED_NOTHING, false, false, call_close_range_backwards},
    {"closefrom", NEED_NOTHING, false, false, call_closefrom},
    {"dup2", NEED_NOTHING, false, false, call_dup2},
    {"fionbio", NEED_NOTHING, false, false, call_fionbio},
    {"dup3", NEED_NOTHING, false, false, call_dup3},
    {"fdatasync", NEED_NOTHING, false, true, call_fdatasync},
    {"syncfs", NEED_NOTHING, false, true, call_syncfs},
    {"sync_file_range", NEED_NOTHING, false, true, call_sync_file_range},
    {"msync", NEED_NOTHING, false, true, call_msync},
    {"lockf", NEED_NOTHING, false, false, call_lockf},
    {"fsync", NEED_NOTHING, false, true, call_fsync},
    {"flock", NEED_NOTHING, false, false, call_flock},
    {"lock_record", NEED_NOTHING, false, false, call_lock_record},
    {"openat", NEED_NOTHING, false, true, call_openat},
};

const call_table descriptor_calls = {calls, sizeof calls / sizeof *calls};
