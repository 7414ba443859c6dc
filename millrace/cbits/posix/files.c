/* files.c: see files.h. POSIX's own calls, or a simulated machine's. */
#include "files.h"

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

int mrh_open(const void *path, int mode)
{
    static const int flags[] = {
        [MRH_FOR_READING] = O_RDONLY,
        [MRH_FOR_WRITING] = O_RDWR | O_CREAT | O_TRUNC,
        [MRH_FOR_UPDATING] = O_RDWR | O_CREAT,
    };
    mr_machine *machine = mrh_simulation_here();
    if (!machine)
        return open(path, flags[mode] | O_CLOEXEC, 0666);
    mrh_begin_block();
    return (int)posix(mr_machine_open(machine, path, flags[mode]));
}

int64_t mrh_file_size(int descriptor)
{
    mr_machine *machine = mrh_simulation_here();
    struct stat status;
    if (!mr_machine_owns(descriptor))
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
