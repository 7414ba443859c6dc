/* system.c: see system.h. POSIX's own calls, or a simulated machine's. */
#include "system.h"

#include "ghc/scheduler.h"
#include "pool.h"
#include "simulation.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/lib-names.h>
#endif

#ifdef SOCK_NONBLOCK
enum { SOCKET_FLAGS = SOCK_NONBLOCK | SOCK_CLOEXEC, SOCKET_SETS_FLAGS = 1 };
#else
enum { SOCKET_FLAGS = 0, SOCKET_SETS_FLAGS = 0 }; /* macOS: socket() has no flags */
#endif

static int64_t wide_result_of(int64_t result)
{
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

static int result_of(int result)
{
    return (int)wide_result_of(result);
}

/* Uses the simulated machine for its descriptors. Once the machine is gone, they count as closed. */
#define ON_DESCRIPTOR(simulated, real)                        \
    do {                                                      \
        if (mrh_is_simulated(descriptor)) {                   \
            mr_machine *machine = mrh_simulation_machine();   \
            mrh_begin_nursery_block();                        \
            return result_of(machine ? (simulated) : -EBADF); \
        }                                                     \
        return (real);                                        \
    } while (0)

/* Makes `count` new sockets non-blocking and not inherited. If that fails, closes them. */
static int with_flags(int result, const int *sockets, int count)
{
    if (result < 0 || SOCKET_SETS_FLAGS)
        return result;
    for (int i = 0; i < count; i++) {
        if (mrh_set_socket_flags(sockets[i]) < 0) {
            int error = errno;
            for (int j = 0; j < count; j++)
                mrh_close(sockets[j]);
            errno = error;
            return -1;
        }
    }
    return result;
}

int mrh_socket(int domain, int type, int protocol)
{
    mr_machine *here = mrh_simulation_here();
    if (here)
        mrh_begin_nursery_block();
    int created = here ? result_of(mr_machine_socket(here, domain, type | SOCKET_FLAGS, protocol))
                       : socket(domain, type | SOCKET_FLAGS, protocol);
    return with_flags(created, &created, 1);
}

int mrh_socketpair(int domain, int type, int protocol, int pair[2])
{
    mr_machine *here = mrh_simulation_here();
    if (here)
        mrh_begin_nursery_block();
    int result = here ? result_of(mr_machine_socketpair(here, domain, type | SOCKET_FLAGS, protocol, pair))
                      : socketpair(domain, type | SOCKET_FLAGS, protocol, pair);
    return with_flags(result, pair, 2);
}

static int set_flags(int descriptor, int command, int flags)
{
    ON_DESCRIPTOR(mr_machine_fcntl(machine, descriptor, command, flags), fcntl(descriptor, command, flags));
}

int mrh_set_socket_flags(int descriptor)
{
    int flags = set_flags(descriptor, F_SETFD, FD_CLOEXEC) < 0 ? -1 : set_flags(descriptor, F_GETFL, 0);
    return flags < 0 ? -1 : set_flags(descriptor, F_SETFL, flags | O_NONBLOCK);
}

int mrh_duplicate(int descriptor)
{
    ON_DESCRIPTOR(-EOPNOTSUPP, fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

#ifdef __linux__

/* Copies the path of the address, if it is one of a socket in the file system. */
static bool path_of(const struct sockaddr *address, socklen_t length, char path[static sizeof(struct sockaddr_un)])
{
    size_t start = offsetof(struct sockaddr_un, sun_path);
    if (length <= start || length > sizeof(struct sockaddr_un) || address->sa_family != AF_UNIX)
        return false;
    memcpy(path, (const char *)address + start, length - start);
    path[length - start] = '\0';
    return path[0] != '\0';
}

/* Whether the path is that of a socket which no program has any more. */
static bool is_left_behind(const char *path, const struct sockaddr *address, socklen_t length)
{
    struct stat found;
    if (lstat(path, &found) != 0 || !S_ISSOCK(found.st_mode))
        return false;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCKET_FLAGS, 0);
    bool is_refused = probe >= 0 && connect(probe, address, length) != 0 && errno == ECONNREFUSED;
    if (probe >= 0)
        close(probe);
    return is_refused;
}

/* The file of a Unix socket stays when its program ends, and nothing can be bound to its path. So such a file is
 * replaced. On other systems a live server with a full queue refuses connections, too. */
static int bind_here(int descriptor, const struct sockaddr *address, socklen_t length)
{
    char path[sizeof(struct sockaddr_un)];
    int result = bind(descriptor, address, length);
    if (result == 0 || errno != EADDRINUSE || !path_of(address, length, path))
        return result;
    bool is_free = is_left_behind(path, address, length) && unlink(path) == 0;
    errno = EADDRINUSE;
    return is_free ? bind(descriptor, address, length) : -1;
}

#else

static int bind_here(int descriptor, const struct sockaddr *address, socklen_t length)
{
    return bind(descriptor, address, length);
}

#endif

int mrh_bind(int descriptor, const struct sockaddr *address, socklen_t length)
{
    ON_DESCRIPTOR(mr_machine_bind(machine, descriptor, address, length), bind_here(descriptor, address, length));
}

int mrh_listen(int descriptor, int backlog)
{
    ON_DESCRIPTOR(mr_machine_listen(machine, descriptor, backlog), listen(descriptor, backlog));
}

int mrh_getsockname(int descriptor, struct sockaddr *address, socklen_t *length)
{
    ON_DESCRIPTOR(mr_machine_getsockname(machine, descriptor, address, length),
                  getsockname(descriptor, address, length));
}

int mrh_getpeername(int descriptor, struct sockaddr *address, socklen_t *length)
{
    ON_DESCRIPTOR(mr_machine_getpeername(machine, descriptor, address, length),
                  getpeername(descriptor, address, length));
}

int mrh_getsockopt(int descriptor, int level, int name, void *value, socklen_t *length)
{
    ON_DESCRIPTOR(mr_machine_getsockopt(machine, descriptor, level, name, value, length),
                  getsockopt(descriptor, level, name, value, length));
}

int mrh_setsockopt(int descriptor, int level, int name, const void *value, socklen_t length)
{
    ON_DESCRIPTOR(mr_machine_setsockopt(machine, descriptor, level, name, value, length),
                  setsockopt(descriptor, level, name, value, length));
}

int mrh_linger_seconds(int descriptor)
{
    struct linger linger = {0};
    socklen_t size = sizeof linger;
    if (mrh_getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, &size) < 0)
        return -1;
    return linger.l_onoff ? linger.l_linger : 0;
}

int mrh_set_linger_seconds(int descriptor, int seconds)
{
    struct linger linger = {.l_onoff = seconds != 0, .l_linger = seconds};
    return mrh_setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

#ifdef POLLRDHUP
enum { END = POLLRDHUP | POLLHUP }; /* a connection that has failed hangs up, too */
#else
#define POLLRDHUP 0 /* other systems report the end only after the program has read the bytes before it */
enum { END = POLLHUP | POLLERR };
#endif

static int reports(int descriptor, short events)
{
    struct pollfd polled = {.fd = descriptor, .events = POLLRDHUP};
    return poll(&polled, 1, 0) > 0 && (polled.revents & events) != 0;
}

static int has_ended(int descriptor)
{
    return reports(descriptor, END);
}

int mrh_ended(int descriptor)
{
    ON_DESCRIPTOR(mr_machine_ended(machine, descriptor), has_ended(descriptor));
}

int mrh_has_error(int descriptor)
{
    ON_DESCRIPTOR(0, reports(descriptor, POLLERR));
}

#ifdef MSG_NOSIGNAL
enum { WITHOUT_SIGNAL = MSG_NOSIGNAL };
#else
enum { WITHOUT_SIGNAL = 0 }; /* macOS: no datagram raises SIGPIPE */
#endif

int64_t mrh_send_to(int descriptor, const void *bytes, size_t size, const struct sockaddr *address, socklen_t length)
{
    struct iovec whole = {(void *)(uintptr_t)bytes, size};
    mr_machine *machine = mrh_simulation_machine();
    if (!mrh_is_simulated(descriptor))
        return sendto(descriptor, bytes, size, WITHOUT_SIGNAL, address, length);
    mrh_begin_nursery_block();
    return wide_result_of(machine ? mr_machine_send_to(machine, descriptor, &whole, 1, address, length) : -EBADF);
}

/* Finds the sender when recvfrom returned none. On a connection it is the peer. Otherwise it is an unbound Unix socket
 * without a name, so this sets only the family. `address` is large enough for any address. */
static void find_sender(int descriptor, struct sockaddr *address, socklen_t *length)
{
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof own;
    if (getsockname(descriptor, (struct sockaddr *)&own, &(socklen_t){sizeof own}) < 0)
        return;
    if (own.ss_family != AF_UNIX && getpeername(descriptor, address, &size) == 0) {
        *length = size;
        return;
    }
    address->sa_family = own.ss_family;
    *length = offsetof(struct sockaddr, sa_data);
}

static int64_t receive_from(int descriptor, void *buffer, size_t size, struct sockaddr *address, socklen_t *length)
{
    int64_t count = recvfrom(descriptor, buffer, size, 0, address, length);
    if (count >= 0 && *length == 0)
        find_sender(descriptor, address, length);
    return count;
}

int64_t mrh_receive_from(int descriptor, void *buffer, size_t size, struct sockaddr *address, socklen_t *length)
{
    struct iovec whole = {buffer, size};
    mr_machine *machine = mrh_simulation_machine();
    if (!mrh_is_simulated(descriptor))
        return receive_from(descriptor, buffer, size, address, length);
    mrh_begin_nursery_block();
    return wide_result_of(machine ? mr_machine_receive_from(machine, descriptor, &whole, 1, address, length) : -EBADF);
}

enum { PAYLOAD_BYTES = 16 }; /* bytes sent with a descriptor: one by us, two by the network package */

/* A message with a control buffer for a descriptor, and for what else the program may have requested on the receiving
 * socket: sender, time and label (SO_PASSCRED, SO_TIMESTAMP, SO_PASSSEC). */
struct descriptor_message {
    _Alignas(struct cmsghdr) char control[512];
    char payload[PAYLOAD_BYTES];
    struct iovec piece;
    struct msghdr message;
};

static struct msghdr *prepare_message(struct descriptor_message *m, size_t payload_bytes, size_t control_bytes)
{
    memset(m, 0, sizeof *m);
    m->piece = (struct iovec){m->payload, payload_bytes};
    m->message.msg_iov = &m->piece;
    m->message.msg_iovlen = 1;
    m->message.msg_control = m->control;
    m->message.msg_controllen = control_bytes;
    return &m->message;
}

int64_t mrh_send_descriptor(int descriptor, int passed)
{
    struct descriptor_message m;
    struct msghdr *message = prepare_message(&m, 1, CMSG_SPACE(sizeof passed));
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (mrh_is_simulated(descriptor))
        return result_of(-EOPNOTSUPP);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof passed);
    memcpy(CMSG_DATA(header), &passed, sizeof passed);
    return sendmsg(descriptor, message, WITHOUT_SIGNAL);
}

#ifdef MSG_CMSG_CLOEXEC
enum { CLOSED_BY_EXEC = MSG_CMSG_CLOEXEC };
#else
enum { CLOSED_BY_EXEC = 0 };
#endif

/* The first descriptor of a message, or -1 if it has none. Closes the others. */
static int first_descriptor(struct msghdr *message)
{
    int first = -1;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= each->cmsg_len; at += sizeof(int)) {
            int passed;
            memcpy(&passed, CMSG_DATA(each) + at, sizeof passed);
            if (first < 0)
                first = passed;
            else
                close(passed);
        }
    }
    return first;
}

int64_t mrh_receive_descriptor(int descriptor)
{
    struct descriptor_message m;
    struct msghdr *message = prepare_message(&m, PAYLOAD_BYTES, sizeof m.control);
    if (mrh_is_simulated(descriptor))
        return result_of(-EOPNOTSUPP);
    if (recvmsg(descriptor, message, CLOSED_BY_EXEC) < 0)
        /* a datagram socket that was shut down gets no more messages */
        return errno == EAGAIN && has_ended(descriptor) ? result_of(-ENOMSG) : -1;
    int passed = first_descriptor(message);
    if (passed < 0)
        return result_of(message->msg_flags & MSG_CTRUNC ? -EMFILE : -ENOMSG);
    if (!CLOSED_BY_EXEC)
        fcntl(passed, F_SETFD, FD_CLOEXEC);
    return passed;
}

int mrh_close(int descriptor)
{
    ON_DESCRIPTOR(mr_machine_close(machine, descriptor), close(descriptor));
}

/* Loads libgcc_s by its name, as glibc does. Ending a thread would load it too, but would end the process if no
 * descriptor is free. */
void mrh_prepare_thread_ends(void)
{
#ifdef __GLIBC__
    static void *libgcc;
    if (!libgcc)
        libgcc = dlopen(LIBGCC_S_SO, RTLD_NOW);
#endif
}

void mrh_count_helpers(int64_t counts[6])
{
    mrh_pool_counts now;
    mrh_pool_count(&now);
    counts[0] = now.helpers;
    counts[1] = now.idle;
    counts[2] = now.queued;
    counts[3] = now.running;
    counts[4] = now.limit;
    counts[5] = now.done;
}

void mrh_stop_helpers(void)
{
    mrh_pool_stop();
}

int mrh_watch_forks(void (*in_child)(void))
{
    return -pthread_atfork(NULL, NULL, in_child);
}
