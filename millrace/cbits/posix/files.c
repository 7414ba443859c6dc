/* files.c: see files.h. POSIX's own calls, or a simulated machine's. */
#include "files.h"

#include "capability.h"
#include "ghc/scheduler.h"
#include "simulation.h"
#include "work.h"

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

int mrh_open_flags(int mode)
{
    static const int flags[] = {
        [MRH_FOR_READING] = O_RDONLY,
        [MRH_FOR_WRITING] = O_RDWR | O_CREAT | O_TRUNC,
        [MRH_FOR_UPDATING] = O_RDWR | O_CREAT,
    };
    return flags[mode];
}

/* Of a simulated machine: helpers open the others (mrh_do_open). */
int mrh_open(const void *path, int mode)
{
    mr_machine *machine = mrh_simulation_here();
    if (!machine) {
        errno = EINVAL;
        return -1;
    }
    mrh_begin_nursery_block();
    return (int)posix(mr_machine_open(machine, path, mrh_open_flags(mode)));
}

int64_t mrh_file_size(int descriptor)
{
    mr_machine *machine = mrh_simulation_here();
    struct stat status;
    if (!mrh_is_simulated(descriptor))
        return fstat(descriptor, &status) == 0 ? status.st_size : -1;
    mrh_begin_nursery_block();
    return posix(machine ? mr_machine_size(machine, descriptor) : -EBADF);
}

int mrh_remove(const void *path)
{
    mr_machine *machine = mrh_simulation_here();
    if (!machine)
        return unlink(path);
    mrh_begin_nursery_block();
    return (int)posix(mr_machine_unlink(machine, path));
}

int64_t mrh_read_cached(mr_handle handle, void *buffer, uint64_t bytes, uint64_t offset)
{
    int descriptor = mr_handle_descriptor(handle);
    if (mrh_is_simulated(descriptor))
        return -EAGAIN;
    int error = mrh_hold(handle);
    if (error)
        return error;
    int64_t count = mrh_read_at_once(descriptor, buffer, bytes, (int64_t)offset);
    mrh_release_handle(handle);
    return count;
}

int mrh_leaves_files_to_helpers(void)
{
    return !mrh_is_simulated_here() && mrh_has_group() &&
           (mrh_backend() == MR_BACKEND_EPOLL || mrh_backend() == MR_BACKEND_KQUEUE);
}
