/* calls.c: see calls.h. */
#include "calls.h"

#include "../harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

mr_machine *test_machine;

/* Converts a result of the simulated machine to that of a POSIX call. */
static long long posix(long long result)
{
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

int system_socket(int domain, int type, int protocol)
{
    if (test_machine)
        return (int)posix(mr_machine_socket(test_machine, domain, type, protocol));
    return socket(domain, type, protocol);
}

int system_socketpair(int domain, int type, int protocol, int pair[2])
{
    if (test_machine)
        return (int)posix(mr_machine_socketpair(test_machine, domain, type, protocol, pair));
    return socketpair(domain, type, protocol, pair);
}

int system_bind(int descriptor, const struct sockaddr *address, socklen_t length)
{
    if (test_machine)
        return (int)posix(mr_machine_bind(test_machine, descriptor, address, length));
    return bind(descriptor, address, length);
}

int system_listen(int descriptor, int backlog)
{
    if (test_machine)
        return (int)posix(mr_machine_listen(test_machine, descriptor, backlog));
    return listen(descriptor, backlog);
}

int system_connect(int descriptor, const struct sockaddr *address, socklen_t length)
{
    if (test_machine)
        return (int)posix(mr_machine_connect(test_machine, descriptor, address, length));
    return connect(descriptor, address, length);
}

int system_accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags)
{
    if (test_machine)
        return (int)posix(mr_machine_accept(test_machine, descriptor, address, length, flags));
    return accept4(descriptor, address, length, flags);
}

int system_getsockname(int descriptor, struct sockaddr *address, socklen_t *length)
{
    if (test_machine)
        return (int)posix(mr_machine_getsockname(test_machine, descriptor, address, length));
    return getsockname(descriptor, address, length);
}

int system_getsockopt(int descriptor, int level, int name, void *value, socklen_t *length)
{
    if (test_machine)
        return (int)posix(mr_machine_getsockopt(test_machine, descriptor, level, name, value, length));
    return getsockopt(descriptor, level, name, value, length);
}

int system_setsockopt(int descriptor, int level, int name, const void *value, socklen_t length)
{
    if (test_machine)
        return (int)posix(mr_machine_setsockopt(test_machine, descriptor, level, name, value, length));
    return setsockopt(descriptor, level, name, value, length);
}

ssize_t system_send(int descriptor, const void *data, size_t size, int flags)
{
    struct iovec element = {(void *)(uintptr_t)data, size};
    if (test_machine)
        return posix(mr_machine_send(test_machine, descriptor, &element, 1, flags));
    return send(descriptor, data, size, flags);
}

ssize_t system_recv(int descriptor, void *buffer, size_t size, int flags)
{
    struct iovec element = {buffer, size};
    if (test_machine)
        return posix(mr_machine_receive(test_machine, descriptor, &element, 1, flags));
    return recv(descriptor, buffer, size, flags);
}

int system_shutdown(int descriptor, int how)
{
    if (test_machine)
        return (int)posix(mr_machine_shutdown(test_machine, descriptor, how));
    return shutdown(descriptor, how);
}

ssize_t system_read(int descriptor, void *buffer, size_t size)
{
    return test_machine ? system_recv(descriptor, buffer, size, 0) : read(descriptor, buffer, size);
}

ssize_t system_write(int descriptor, const void *data, size_t size)
{
    return test_machine ? system_send(descriptor, data, size, 0) : write(descriptor, data, size);
}

int system_close(int descriptor)
{
    if (test_machine)
        return (int)posix(mr_machine_close(test_machine, descriptor));
    return close(descriptor);
}

int system_fcntl(int descriptor, int command, int argument)
{
    if (test_machine && mr_machine_owns(descriptor))
        return (int)posix(mr_machine_fcntl(test_machine, descriptor, command, argument));
    return fcntl(descriptor, command, argument);
}

int system_dup3(int descriptor, int number, int flags)
{
    if (test_machine)
        return (int)posix(mr_machine_dup3(test_machine, descriptor, number, flags));
    return dup3(descriptor, number, flags);
}

int system_pipe2(int ends[2], int flags)
{
    if (test_machine)
        return (int)posix(mr_machine_pipe(test_machine, ends, flags));
    return pipe2(ends, flags);
}

int system_eventfd(unsigned value, int flags)
{
    if (test_machine)
        return (int)posix(mr_machine_eventfd(test_machine, value, flags & EFD_NONBLOCK ? O_NONBLOCK : 0));
    return eventfd(value, flags);
}

int system_eventfd_write(int descriptor, uint64_t value)
{
    return system_write(descriptor, &value, sizeof value) == sizeof value ? 0 : -1;
}

int system_eventfd_read(int descriptor, uint64_t *value)
{
    return system_read(descriptor, value, sizeof *value) == sizeof *value ? 0 : -1;
}

int system_memfd_create(const char *name)
{
    if (test_machine)
        return (int)posix(mr_machine_file(test_machine));
    return memfd_create(name, MFD_CLOEXEC);
}

int system_open(const char *path, int flags)
{
    if (test_machine)
        return (int)posix(mr_machine_file(test_machine));
    return open(path, flags);
}

off_t system_lseek(int descriptor, off_t offset, int whence)
{
    if (test_machine)
        return (off_t)posix(mr_machine_seek(test_machine, descriptor, offset, whence));
    return lseek(descriptor, offset, whence);
}

int system_getrlimit(struct rlimit *limit)
{
    if (test_machine) {
        limit->rlim_cur = limit->rlim_max = (rlim_t)mr_machine_limit(test_machine);
        return 0;
    }
    return getrlimit(RLIMIT_NOFILE, limit);
}

int system_setrlimit(const struct rlimit *limit)
{
    if (test_machine) {
        mr_machine_set_limit(test_machine, (int)limit->rlim_cur);
        return 0;
    }
    return setrlimit(RLIMIT_NOFILE, limit);
}

static int open_simulated(void)
{
    mr_machine_state state;
    mr_machine_inspect(test_machine, &state);
    return (int)state.open_descriptors;
}

int system_open_descriptors(void)
{
    if (test_machine)
        return open_simulated();
    int count = 0;
    DIR *directory = opendir("/dev/fd");
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static bool is_ready(int descriptor, bool for_reading)
{
    return (for_reading ? mr_machine_readable(test_machine, descriptor)
                        : mr_machine_writable(test_machine, descriptor)) != -EAGAIN;
}

enum { AWAIT_LIMIT_MS = 20000 }; /* for a busy machine */

void system_await(int descriptor, bool for_reading)
{
    struct pollfd entry = {.fd = descriptor, .events = for_reading ? POLLIN : POLLOUT};
    if (!test_machine) {
        int ready;
        while ((ready = poll(&entry, 1, AWAIT_LIMIT_MS)) < 0)
            CHECK_EQ(errno, EINTR);
        if (!ready)
            FAIL("descriptor %d is not ready after %d ms", descriptor, AWAIT_LIMIT_MS);
        return;
    }
    while (!is_ready(descriptor, for_reading))
        if (mr_machine_await(test_machine))
            FAIL("descriptor %d will never be ready", descriptor);
}
