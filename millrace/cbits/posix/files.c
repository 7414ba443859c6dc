/* files.c: opening files: the calls about them that are no operations of the core. Where a simulation runs, its machine's.
 * For `unsafe` calls: -1 and errno. */
#include "simulation.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOR_READING, FOR_WRITING, FOR_UPDATING };

static int64_t posix(int64_t result)
{
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

int mrh_open(const char *path, int mode)
{
    static const int flags[] = {
        [FOR_READING] = O_RDONLY,
        [FOR_WRITING] = O_RDWR | O_CREAT | O_TRUNC,
        [FOR_UPDATING] = O_RDWR | O_CREAT,
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

int mrh_remove(const char *path)
{
    mr_machine *machine = mrh_simulation_here();
    if (!machine)
        return unlink(path);
    mrh_begin_block();
    return (int)posix(mr_machine_unlink(machine, path));
}
