/* files.c: see files.h. POSIX's own calls, or a simulated machine's. */
#include "files.h"

#include "ghc/scheduler.h"
#include "simulation.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t posix(int64_t result)
{
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

/* Opening a FIFO would wait for its other end; where a lease is broken (fcntl(2)), which only regular files have, an open
 * that does not wait fails. */
static int open_at_once(const char *path, int flags)
{
    int descriptor = open(path, flags | O_NONBLOCK, 0666);
    return descriptor < 0 && errno == EWOULDBLOCK ? open(path, flags, 0666) : descriptor;
}

/* Directories can be synced, and disks have offsets like files: all but those has none, and may wait for ever. */
static int has_offsets(int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) < 0)
        return -1;
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode))
        return 0;
    errno = ESPIPE;
    return -1;
}

/* io_uring would not wait for the disk with O_NONBLOCK, and fail. */
static int let_wait(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL, 0);
    return flags < 0 ? -1 : fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK);
}

static int open_file(const char *path, int flags)
{
    int descriptor = open_at_once(path, flags | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0 || (has_offsets(descriptor) == 0 && let_wait(descriptor) == 0))
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

int mrh_open(const void *path, int mode)
{
    static const int flags[] = {
        [MRH_FOR_READING] = O_RDONLY,
        [MRH_FOR_WRITING] = O_RDWR | O_CREAT | O_TRUNC,
        [MRH_FOR_UPDATING] = O_RDWR | O_CREAT,
    };
    mr_machine *machine = mrh_simulation_here();
    if (!machine)
        return open_file(path, flags[mode]);
    mrh_begin_block();
    return (int)posix(mr_machine_open(machine, path, flags[mode]));
}

int64_t mrh_file_size(int descriptor)
{
    mr_machine *machine = mrh_simulation_here();
    struct stat status;
    if (!mrh_is_simulated(descriptor))
        return fstat(descriptor, &status) == 0 ? status.st_size : -1;
    mrh_begin_block();
    return posix(machine ? mr_machine_size(machine, descriptor) : -EBADF);
}

int mrh_remove(const void *path)
{
    mr_machine *machine = mrh_simulation_here();
    if (!machine)
        return unlink(path);
    mrh_begin_block();
    return (int)posix(mr_machine_unlink(machine, path));
}
