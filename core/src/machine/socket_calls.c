/* socket_calls.c: calls of a simulated machine that create a socket or name one by its number, from socket to
 * setsockopt, as in POSIX. */
#include "socket_calls.h"

#include "datagram.h"
#include "descriptor_table.h"
#include "file.h"
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

mr_socket *mr_socket_of(mr_machine *machine, int number, int *error)
{
    mr_file *file = mr_machine_find(machine, number);
    *error = !file ? -EBADF : file->kind != MR_FILE_SOCKET ? -ENOTSOCK : 0;
    return *error ? NULL : (mr_socket *)file;
}

/* Locks the machine and finds a socket. If there is none, unlocks it again and returns the error. */
static mr_socket *lock_socket(mr_machine *machine, int number, int *error)
{
    mr_machine_lock(machine);
    mr_socket *socket = mr_socket_of(machine, number, error);
    if (!socket)
        mr_machine_unlock(machine);
    return socket;
}

static int unlock_with(mr_machine *machine, int result)
{
    mr_machine_unlock(machine);
    return result;
}

static int new_number(mr_machine *machine, mr_socket *socket, int flags)
{
    int number = socket ? mr_machine_install(machine, &socket->file, flags) : -ENOMEM;
    if (number < 0 && socket)
        mr_socket_discard(machine, socket);
    return number;
}

int mr_machine_socket(mr_machine *machine, int domain, int type, int protocol)
{
    int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
    (void)protocol;
    bool is_internet = mr_is_internet((sa_family_t)domain);
    if ((!is_internet && domain != AF_UNIX) || (kind != SOCK_STREAM && (kind != SOCK_DGRAM || !is_internet)))
        return -EAFNOSUPPORT;
    mr_machine_lock(machine);
    mr_fault fault = mr_machine_next_fault(machine, 1u << MR_FAULT_NO_DESCRIPTORS | 1u << MR_FAULT_NO_BUFFERS);
    if (fault)
        return unlock_with(machine, fault == MR_FAULT_NO_BUFFERS ? -ENOBUFS : -EMFILE);
    int number = new_number(machine, mr_socket_new(machine, domain, kind), type & SOCK_NONBLOCK ? O_NONBLOCK : 0);
    MR_TRACE(machine, "socket %d", number);
    return unlock_with(machine, number);
}

/* Assigns numbers to both ends, or to none. */
static int install_pair(mr_machine *machine, mr_socket *ends[2], int flags, int numbers[2])
{
    if (ends[0] && ends[1])
        mr_socket_connect_pair(ends[0], ends[1]);
    mr_machine_lock(machine);
    numbers[0] = new_number(machine, ends[0], flags);
    numbers[1] = numbers[0] < 0 ? numbers[0] : new_number(machine, ends[1], flags);
    int result = numbers[1] < 0 ? numbers[1] : 0;
    if (result && numbers[0] < 0 && ends[1])
        mr_socket_discard(machine, ends[1]);
    if (result && numbers[0] >= 0) {
        ends[0]->peer = NULL;
        mr_machine_close(machine, numbers[0]);
    }
    return unlock_with(machine, result);
}

int mr_machine_socketpair(mr_machine *machine, int domain, int type, int protocol, int pair[2])
{
    (void)protocol;
    if (domain != AF_UNIX || (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM)
        return -EOPNOTSUPP;
    mr_socket *ends[2] = {mr_socket_new(machine, domain, SOCK_STREAM), mr_socket_new(machine, domain, SOCK_STREAM)};
    return install_pair(machine, ends, type & SOCK_NONBLOCK ? O_NONBLOCK : 0, pair);
}

int mr_machine_pipe(mr_machine *machine, int numbers[2], int flags)
{
    mr_socket *ends[2] = {mr_socket_new(machine, AF_UNIX, SOCK_STREAM), mr_socket_new(machine, AF_UNIX, SOCK_STREAM)};
    if (ends[0])
        ends[0]->is_pipe_reader = ends[0]->cannot_send = true;
    if (ends[1])
        ends[1]->is_pipe_writer = true;
    return install_pair(machine, ends, flags, numbers);
}

static bool is_taken(const mr_machine *machine, const mr_socket *socket, const mr_socket_name *name)
{
    for (const mr_socket *each = machine->bound; each; each = each->next_bound)
        if (each->type == socket->type && mr_socket_name_reaches(name, &each->local) &&
            !(socket->shares_port && each->shares_port))
            return true;
    return false;
}

static int choose_port(mr_machine *machine, const mr_socket *socket, mr_socket_name *name)
{
    for (int port = MR_FIRST_PORT; port <= MR_LAST_PORT; port++) {
        name->port = mr_socket_next_port(machine);
        if (!is_taken(machine, socket, name))
            return 0;
    }
    return -EADDRINUSE;
}

/* Chooses a name as Linux does for a Unix socket that is bound without one (unix(7), "Autobind"). */
static int choose_path(mr_machine *machine, mr_socket_name *name)
{
    enum { LENGTH = 6 };
    static const char digits[] = "0123456789abcdef";
    char *path = realloc(name->path, LENGTH);
    if (!path)
        return -ENOMEM;
    unsigned number = machine->next_abstract++;
    path[0] = 0;
    for (int i = LENGTH - 1; i > 0; i--, number /= 16)
        path[i] = digits[number % 16];
    name->path = path;
    name->path_length = LENGTH;
    return 0;
}

static int bind_socket(mr_machine *machine, mr_socket *socket, const struct sockaddr *address, socklen_t length)
{
    mr_socket_name name;
    if (socket->is_bound)
        return -EINVAL;
    int error = mr_socket_name_from(address, length, &name);
    if (!error && name.family != socket->family)
        error = -EAFNOSUPPORT;
    if (!error && mr_is_internet(name.family) && name.port == 0)
        error = choose_port(machine, socket, &name);
    if (!error && name.family == AF_UNIX && name.path_length == 0)
        error = choose_path(machine, &name);
    if (!error && is_taken(machine, socket, &name))
        error = -EADDRINUSE;
    if (error) {
        mr_socket_name_free(&name);
        return error;
    }
    socket->local = name;
    socket->is_bound = true;
    socket->next_bound = machine->bound;
    machine->bound = socket;
    return 0;
}

int mr_socket_bind_anywhere(mr_machine *machine, mr_socket *socket)
{
    struct sockaddr_storage any = {.ss_family = socket->family};
    return socket->is_bound ? 0 : bind_socket(machine, socket, (struct sockaddr *)&any, sizeof any);
}

int mr_machine_bind(mr_machine *machine, int number, const struct sockaddr *address, socklen_t length)
{
    int error;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    error = bind_socket(machine, socket, address, length);
    MR_TRACE(machine, "bind %d port %u result %d", number, ntohs(socket->local.port), error);
    return unlock_with(machine, error);
}

int mr_machine_listen(mr_machine *machine, int number, int backlog)
{
    int error;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    if (socket->type != SOCK_STREAM)
        return unlock_with(machine, -EOPNOTSUPP);
    if (!socket->listener)
        socket->listener = calloc(1, sizeof *socket->listener);
    if (!socket->listener)
        return unlock_with(machine, -ENOMEM);
    socket->listener->limit = backlog < 0 ? 1 : (unsigned)backlog + 1;
    socket->state = MR_SOCKET_LISTENING;
    MR_TRACE(machine, "listen %d backlog %d", number, backlog);
    return unlock_with(machine, 0);
}

int mr_machine_connect(mr_machine *machine, int number, const struct sockaddr *address, socklen_t length)
{
    int error;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    return unlock_with(machine, mr_socket_connect(machine, socket, address, length));
}

static int accept_from(mr_machine *machine, mr_socket *listener, struct sockaddr *address, socklen_t *length, int flags)
{
    if (listener->state != MR_SOCKET_LISTENING)
        return -EINVAL;
    if (!listener->listener->accepted.first)
        return -EAGAIN;
    int error = mr_machine_check_limit(machine);
    if (error)
        return error;
    mr_socket *server = mr_socket_queue_pop(&listener->listener->accepted);
    mr_socket_admit_waiting(machine, listener);
    if (server->error == ECONNRESET) {
        mr_socket_discard(machine, server);
        return -ECONNABORTED;
    }
    if (address)
        mr_socket_name_to_address(&server->remote, server->family, address, length);
    int number = mr_machine_install(machine, &server->file, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
    if (number < 0) /* without memory the connection ends */
        mr_file_free(machine, &server->file);
    return number;
}

int mr_machine_accept(mr_machine *machine, int number, struct sockaddr *address, socklen_t *length, int flags)
{
    int error;
    mr_socket *listener = lock_socket(machine, number, &error);
    if (!listener)
        return error;
    return unlock_with(machine, accept_from(machine, listener, address, length, flags));
}

int mr_machine_shutdown(mr_machine *machine, int number, int how)
{
    int error;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    error = mr_socket_shutdown(machine, socket, how);
    MR_TRACE(machine, "shutdown %d how %d result %d", number, how, error);
    return unlock_with(machine, error);
}

int mr_machine_ended(mr_machine *machine, int number)
{
    int error;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    return unlock_with(machine, socket->error || socket->incoming.has_ended || socket->cannot_receive);
}

int mr_machine_getsockname(mr_machine *machine, int number, struct sockaddr *address, socklen_t *length)
{
    int error;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    mr_socket_name_to_address(&socket->local, socket->family, address, length);
    return unlock_with(machine, 0);
}

int mr_machine_getpeername(mr_machine *machine, int number, struct sockaddr *address, socklen_t *length)
{
    int error;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    if (socket->state != MR_SOCKET_CONNECTED)
        return unlock_with(machine, -ENOTCONN);
    mr_socket_name_to_address(&socket->remote, socket->family, address, length);
    return unlock_with(machine, 0);
}

ssize_t mr_machine_send_to(mr_machine *machine, int number, const struct iovec *elements, size_t count,
                           const struct sockaddr *address, socklen_t length)
{
    int error;
    mr_socket_name to;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    if (socket->type == SOCK_STREAM || !address)
        return unlock_with(machine, (int)mr_socket_send(machine, socket, elements, count, 0, false));
    error = mr_socket_name_from(address, length, &to);
    int result = error ? error : (int)mr_datagram_send(machine, socket, elements, count, &to);
    mr_socket_name_free(&to);
    return unlock_with(machine, result);
}

ssize_t mr_machine_receive_from(mr_machine *machine, int number, const struct iovec *elements, size_t count,
                                struct sockaddr *address, socklen_t *length)
{
    int error;
    mr_socket_name from = {0};
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    int result = (int)(socket->type == SOCK_DGRAM ? mr_datagram_receive(machine, socket, elements, count, &from)
                                                  : mr_socket_receive(machine, socket, elements, count));
    if (result >= 0 && address && from.family)
        mr_socket_name_to_address(&from, from.family, address, length);
    else if (result >= 0 && address) /* on a stream, or the end after a shutdown: the peer is the sender */
        mr_socket_name_to_address(&socket->remote, socket->family, address, length);
    return unlock_with(machine, result);
}

/* ---------------------------------------------------------------------------------------------------- options --- */

static int option_of(mr_socket *socket, int name)
{
    int error = socket->error;
    switch (name) {
#ifdef SO_DOMAIN
    case SO_DOMAIN:
        return socket->family;
#endif
#ifdef SO_PROTOCOL
    case SO_PROTOCOL:
        return !mr_is_internet(socket->family) ? 0 : socket->type == SOCK_DGRAM ? IPPROTO_UDP : IPPROTO_TCP;
#endif
    case SO_TYPE:
        return socket->type;
    case SO_ACCEPTCONN:
        return socket->state == MR_SOCKET_LISTENING;
    case SO_REUSEPORT:
        return socket->shares_port;
    case SO_RCVBUF:
        return (int)socket->incoming.capacity;
    case SO_SNDBUF:
        return socket->peer ? (int)socket->peer->incoming.capacity : 0;
    case SO_ERROR:
        socket->error = 0;
        return error;
    default:
        return 0;
    }
}

int mr_machine_getsockopt(mr_machine *machine, int number, int level, int name, void *value, socklen_t *length)
{
    int error;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    int answer = level == SOL_SOCKET ? option_of(socket, name) : 0;
    if (*length > sizeof answer)
        *length = sizeof answer;
    memcpy(value, &answer, *length);
    return unlock_with(machine, 0);
}

static void set_linger(mr_socket *socket, const void *value, socklen_t length)
{
    struct linger linger = {0};
    memcpy(&linger, value, length < sizeof linger ? length : sizeof linger);
    socket->resets_at_close = linger.l_onoff && linger.l_linger == 0;
}

int mr_machine_setsockopt(mr_machine *machine, int number, int level, int name, const void *value, socklen_t length)
{
    int error, wanted = 0;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    memcpy(&wanted, value, length < sizeof wanted ? length : sizeof wanted);
    if (level == SOL_SOCKET && name == SO_LINGER)
        set_linger(socket, value, length);
    else if (level == SOL_SOCKET && name == SO_REUSEPORT)
        socket->shares_port = wanted != 0;
    else if (level == SOL_SOCKET && name == SO_RCVBUF && wanted > 0)
        socket->incoming.capacity = (uint32_t)wanted;
    else if (level == SOL_SOCKET && name == SO_SNDBUF && wanted > 0 && socket->peer)
        socket->peer->incoming.capacity = (uint32_t)wanted;
    return unlock_with(machine, 0);
}
