/* socket.c: connections of a simulated machine: streams with two ends, listeners and their queues, and pipes, which
 * are streams with one direction. Also what all sockets have in common. */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_PORT = 32768, LAST_PORT = 60999 }; /* Linux's ip_local_port_range */

/* ------------------------------------------------------------------------------------------------------- names --- */

static in_port_t next_port(mr_machine *machine)
{
    if (machine->next_port < FIRST_PORT || machine->next_port > LAST_PORT) {
        machine->next_port = FIRST_PORT;
        machine->next_host++; /* another client's address */
    }
    return htons(machine->next_port++);
}

/* The address of a client that was not bound to one. */
static void name_client(mr_machine *machine, mr_socket *client)
{
    if (client->is_bound || client->local.family != AF_UNSPEC || !mr_is_internet(client->family))
        return;
    client->local = (mr_name){.family = client->family, .port = next_port(machine)};
    mr_name_set_host(&client->local, INADDR_LOOPBACK + machine->next_host - 1);
}

/* ----------------------------------------------------------------------------------------------- life and death --- */

static mr_socket *new_socket(const mr_machine *machine, int family, int type)
{
    mr_socket *socket = calloc(1, sizeof *socket);
    if (socket) {
        socket->file.kind = MR_FILE_SOCKET;
        socket->family = (uint8_t)family;
        socket->type = (uint8_t)type;
        socket->incoming.capacity = machine->plan.buffer_bytes;
    }
    return socket;
}

static void couple(mr_socket *a, mr_socket *b)
{
    a->peer = b;
    b->peer = a;
    a->state = b->state = MR_SOCKET_CONNECTED;
    a->has_told = b->has_told = true;
}

static void drop_incoming(mr_machine *machine, mr_socket *socket)
{
    machine->state.buffered_bytes -= socket->incoming.used;
    mr_stream_clear(&socket->incoming);
}

/* Drops a socket without descriptor numbers. It is freed after the last event for it. */
static void discard(mr_machine *machine, mr_socket *socket)
{
    drop_incoming(machine, socket);
    mr_datagrams_drop(machine, socket);
    mr_name_free(&socket->local);
    mr_name_free(&socket->remote);
    free(socket->listener);
    socket->is_gone = true;
    if (socket->events == 0)
        free(socket);
}

static void enqueue(mr_socket_queue *queue, mr_socket *socket)
{
    socket->queued = NULL;
    if (queue->last)
        queue->last->queued = socket;
    else
        queue->first = socket;
    queue->last = socket;
    queue->count++;
}

static mr_socket *dequeue(mr_socket_queue *queue)
{
    mr_socket *first = queue->first;
    if (!first)
        return NULL;
    queue->first = first->queued;
    if (!queue->first)
        queue->last = NULL;
    queue->count--;
    return first;
}

static void remove_from(mr_socket_queue *queue, mr_socket *socket)
{
    mr_socket_queue rest = {0};
    for (mr_socket *each; (each = dequeue(queue));)
        if (each != socket)
            enqueue(&rest, each);
    *queue = rest;
}

/* -------------------------------------------------------------------------------------------------- the links --- */

static void take_reset(mr_machine *machine, mr_socket *socket)
{
    drop_incoming(machine, socket);
    socket->error = ECONNRESET;
    socket->cannot_receive = socket->cannot_send = true;
    if (socket->peer) {
        socket->peer->peer = NULL;
        socket->peer = NULL;
    }
    mr_file_changed(machine, &socket->file);
}

static void arrive(mr_machine *machine, mr_socket *socket, mr_segment_kind kind, uint32_t size)
{
    if (kind == MR_SEGMENT_RESET) {
        take_reset(machine, socket);
        return;
    }
    if (kind == MR_SEGMENT_END)
        socket->incoming.has_ended = true;
    else
        socket->incoming.arrived += size;
    mr_file_changed(machine, &socket->file);
}

uint64_t mr_arrival_ns(mr_machine *machine, mr_stream *stream, uint32_t size)
{
    uint64_t now_ns = mr_machine_now_ns(machine);
    uint64_t begin_ns = stream->link_free_ns > now_ns ? stream->link_free_ns : now_ns;
    if (machine->plan.bytes_per_second)
        begin_ns += size * MR_NS_PER_S / machine->plan.bytes_per_second;
    stream->link_free_ns = begin_ns;
    return begin_ns + machine->plan.latency_ns;
}

static uint64_t arrival_in_order_ns(mr_machine *machine, mr_stream *stream, uint32_t size, uint64_t stall_ns)
{
    uint64_t then_ns = mr_arrival_ns(machine, stream, size) + stall_ns;
    if (then_ns < stream->last_arrival_ns)
        then_ns = stream->last_arrival_ns; /* bytes of a stream never overtake each other */
    stream->last_arrival_ns = then_ns;
    return then_ns;
}

/* Sends something to a socket. The bytes of data are already in its stream. Without memory it arrives at once. */
static void transmit(mr_machine *machine, mr_socket *receiver, mr_segment_kind kind, uint32_t size, uint64_t stall_ns)
{
    mr_stream *stream = &receiver->incoming;
    uint64_t then_ns = arrival_in_order_ns(machine, stream, size, stall_ns);
    bool is_immediate = !stream->on_its_way && then_ns <= mr_machine_now_ns(machine);
    mr_segment *segment = is_immediate ? NULL : malloc(sizeof *segment);
    if (!segment) {
        arrive(machine, receiver, kind, size);
        return;
    }
    *segment = (mr_segment){.arrival_ns = then_ns, .size = size, .kind = kind};
    if (stream->on_its_way) {
        stream->last_on_its_way->next = segment;
    } else {
        stream->on_its_way = segment;
        mr_machine_plan_happening(machine, then_ns, (mr_happening){.kind = MR_HAPPENS_ARRIVAL, .socket = receiver});
    }
    stream->last_on_its_way = segment;
}

static void first_arrives(mr_machine *machine, mr_socket *socket)
{
    mr_segment *segment = socket->incoming.on_its_way;
    if (!segment)
        return; /* a reset has removed it */
    socket->incoming.on_its_way = segment->next;
    if (segment->next)
        mr_machine_plan_happening(machine, segment->next->arrival_ns,
                                  (mr_happening){.kind = MR_HAPPENS_ARRIVAL, .socket = socket});
    arrive(machine, socket, segment->kind, segment->size);
    free(segment);
}

void mr_socket_break(mr_machine *machine, mr_socket *socket)
{
    mr_socket *peer = socket->peer;
    take_reset(machine, socket);
    if (peer)
        take_reset(machine, peer);
}

/* ------------------------------------------------------------------------------------------------- connecting --- */

static void establish(mr_machine *machine, mr_socket *client, mr_socket *listener)
{
    mr_socket *server = new_socket(machine, client->family, client->type);
    if (!server || mr_name_copy(&client->remote, &server->local) || mr_name_copy(&client->local, &server->remote)) {
        free(server);
        client->state = MR_SOCKET_FRESH;
        client->error = ENOMEM;
        mr_file_changed(machine, &client->file);
        return;
    }
    couple(client, server);
    client->has_told = false;
    enqueue(&listener->listener->accepted, server);
    mr_file_changed(machine, &listener->file);
    mr_file_changed(machine, &client->file);
}

static bool has_room(const mr_listener *listener)
{
    return listener->accepted.count < listener->limit;
}

static void refuse(mr_machine *machine, mr_socket *client)
{
    client->state = MR_SOCKET_FRESH;
    client->target = NULL;
    client->error = ECONNREFUSED;
    mr_file_changed(machine, &client->file);
}

static void admit_waiting(mr_machine *machine, mr_socket *listener)
{
    while (has_room(listener->listener) && listener->listener->waiting.count) {
        mr_socket *client = dequeue(&listener->listener->waiting);
        client->target = NULL;
        establish(machine, client, listener);
    }
}

/* Of several sockets that share a port, one is chosen at random. */
static mr_socket *find_listener(mr_machine *machine, const mr_name *name, bool *is_bound)
{
    unsigned matching = 0;
    mr_socket *found = NULL;
    *is_bound = false;
    for (mr_socket *each = machine->bound; each; each = each->next_bound) {
        if (each->type != SOCK_STREAM || !mr_name_reaches(name, &each->local))
            continue;
        *is_bound = true;
        if (each->state == MR_SOCKET_LISTENING && (++matching == 1 || mr_machine_draw(machine, matching) == 0))
            found = each;
    }
    return found;
}

/* A connection attempt has reached its destination. */
static void call_arrives(mr_machine *machine, mr_socket *client)
{
    bool is_bound;
    mr_socket *listener = find_listener(machine, &client->remote, &is_bound);
    if (!listener) {
        refuse(machine, client);
    } else if (has_room(listener->listener)) {
        establish(machine, client, listener);
    } else {
        client->target = listener;
        enqueue(&listener->listener->waiting, client);
    }
}

static int connect_unix(mr_machine *machine, mr_socket *client)
{
    bool is_bound;
    mr_socket *listener = find_listener(machine, &client->remote, &is_bound);
    if (!listener)
        return is_bound || !client->remote.path_length || !client->remote.path[0] ? -ECONNREFUSED : -ENOENT;
    if (!has_room(listener->listener))
        return -EAGAIN;
    establish(machine, client, listener);
    client->has_told = true;
    return client->error ? -client->error : 0;
}

static int begin_connect(mr_machine *machine, mr_socket *client, const struct sockaddr *address, socklen_t length)
{
    mr_name_free(&client->remote);
    int error = mr_name_from(address, length, &client->remote);
    if (error)
        return error;
    if (client->remote.family != client->family)
        return -EAFNOSUPPORT;
    if (client->family == AF_UNIX)
        return connect_unix(machine, client);
    name_client(machine, client);
    client->state = MR_SOCKET_CONNECTING;
    if (machine->plan.latency_ns)
        mr_machine_plan_happening(machine, mr_machine_now_ns(machine) + 2 * machine->plan.latency_ns,
                                  (mr_happening){.kind = MR_HAPPENS_CALL, .socket = client});
    else
        call_arrives(machine, client);
    return -EINPROGRESS;
}

static int connect_socket(mr_machine *machine, mr_socket *client, const struct sockaddr *address, socklen_t length)
{
    int error = client->error;
    client->error = 0;
    if (error)
        return -error;
    if (client->type == SOCK_DGRAM)
        return mr_datagram_connect(machine, client, address, length);
    switch (client->state) {
    case MR_SOCKET_FRESH:
        return begin_connect(machine, client, address, length);
    case MR_SOCKET_CONNECTING:
        return -EALREADY;
    case MR_SOCKET_CONNECTED:
        if (client->has_told)
            return -EISCONN;
        client->has_told = true;
        return 0;
    default:
        return -EINVAL;
    }
}

void mr_socket_happens(mr_machine *machine, const mr_happening *what)
{
    if (what->kind == MR_HAPPENS_DATAGRAM)
        mr_datagram_arrives(machine, what->socket, what->datagram);
    else if (what->socket->is_gone)
        return;
    else if (what->kind == MR_HAPPENS_ARRIVAL)
        first_arrives(machine, what->socket);
    else
        call_arrives(machine, what->socket);
}

/* ---------------------------------------------------------------------------------------------------- closing --- */

static void free_listener(mr_machine *machine, mr_socket *listener)
{
    for (mr_socket *server; (server = dequeue(&listener->listener->accepted));) {
        if (server->peer)
            transmit(machine, server->peer, MR_SEGMENT_RESET, 0, 0);
        if (server->peer)
            server->peer->peer = NULL;
        discard(machine, server);
    }
    for (mr_socket *client; (client = dequeue(&listener->listener->waiting));)
        refuse(machine, client);
}

static void forget_name(mr_machine *machine, mr_socket *socket)
{
    for (mr_socket **place = &machine->bound; *place; place = &(*place)->next_bound) {
        if (*place == socket) {
            *place = socket->next_bound;
            return;
        }
    }
}

/* Closing with unread bytes, or with SO_LINGER of no time, resets the connection (RFC 2525, section 2.17). Unix sockets
 * do the same. */
static void say_goodbye(mr_machine *machine, mr_socket *socket)
{
    mr_socket *peer = socket->peer;
    bool resets = !socket->is_pipe_reader && (socket->resets_at_close || socket->incoming.used > 0);
    if (resets && !socket->cannot_receive)
        transmit(machine, peer, MR_SEGMENT_RESET, 0, 0);
    else if (!socket->cannot_send)
        transmit(machine, peer, MR_SEGMENT_END, 0, 0);
    if (socket->peer) {
        peer->peer = NULL;
        mr_file_changed(machine, &peer->file);
    }
}

void mr_socket_free(mr_machine *machine, mr_socket *socket)
{
    if (socket->listener)
        free_listener(machine, socket);
    if (socket->is_bound)
        forget_name(machine, socket);
    if (socket->target)
        remove_from(&socket->target->listener->waiting, socket);
    if (socket->peer)
        say_goodbye(machine, socket);
    discard(machine, socket);
}

/* ---------------------------------------------------------------------------------------------- moving bytes --- */

int mr_socket_readable(const mr_socket *socket)
{
    if (socket->error || socket->incoming.arrived || socket->incoming.has_ended || socket->cannot_receive)
        return 0;
    if (socket->type == SOCK_DGRAM)
        return socket->datagrams ? 0 : -EAGAIN;
    if (socket->state == MR_SOCKET_LISTENING)
        return socket->listener->accepted.count ? 0 : -EAGAIN;
    if (socket->is_pipe_writer)
        return socket->peer ? -EAGAIN : 0;
    return socket->state == MR_SOCKET_FRESH ? 0 : -EAGAIN;
}

int mr_socket_writable(const mr_socket *socket)
{
    if (socket->error || socket->cannot_send || socket->type == SOCK_DGRAM)
        return 0;
    if (socket->state == MR_SOCKET_CONNECTED)
        return !socket->peer || mr_stream_room(&socket->peer->incoming) > 0 ? 0 : -EAGAIN;
    return socket->state == MR_SOCKET_FRESH ? 0 : -EAGAIN;
}

static uint32_t take_into(mr_stream *stream, const struct iovec *elements, size_t count)
{
    uint32_t total = 0;
    if (stream->urgent_at == 1)
        stream->urgent_at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = elements[i].iov_len;
        if (stream->urgent_at && size > stream->urgent_at - 1 - total)
            size = stream->urgent_at - 1 - total; /* a receive stops at the urgent mark (tcp(7), "SO_OOBINLINE") */
        uint32_t taken = mr_stream_take(stream, elements[i].iov_base, size < UINT32_MAX ? (uint32_t)size : UINT32_MAX);
        total += taken;
        if (taken < elements[i].iov_len)
            break;
    }
    if (stream->urgent_at)
        stream->urgent_at -= total;
    return total;
}

size_t mr_total_length(const struct iovec *elements, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += elements[i].iov_len;
    return total;
}

ssize_t mr_socket_receive(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count)
{
    if (socket->type == SOCK_DGRAM)
        return mr_datagram_receive(machine, socket, elements, count, NULL);
    mr_stream *stream = &socket->incoming;
    if (socket->error) {
        int error = socket->error;
        socket->error = 0;
        return -error;
    }
    if (socket->state == MR_SOCKET_CONNECTING)
        return -EAGAIN;
    if (socket->state != MR_SOCKET_CONNECTED)
        return -ENOTCONN;
    if (socket->is_pipe_writer)
        return -EBADF;
    if (stream->arrived && mr_total_length(elements, count)) {
        uint32_t taken = take_into(stream, elements, count);
        machine->state.buffered_bytes -= taken;
        if (socket->peer)
            mr_file_changed(machine, &socket->peer->file);
        return taken;
    }
    return stream->has_ended || socket->cannot_receive || !mr_total_length(elements, count) ? 0 : -EAGAIN;
}

/* The other end is closed. Over a network, the first send afterwards does not notice it yet. */
static ssize_t send_to_nobody(mr_socket *socket, size_t size)
{
    if (!mr_is_internet(socket->family))
        return -EPIPE;
    socket->cannot_send = true;
    return (ssize_t)size;
}

static uint32_t append_all(mr_stream *stream, const struct iovec *elements, size_t count)
{
    uint32_t total = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t room = mr_stream_room(stream);
        uint32_t size = elements[i].iov_len < room ? (uint32_t)elements[i].iov_len : room;
        if (size && !mr_stream_append(stream, elements[i].iov_base, size))
            break;
        total += size;
        if (size < elements[i].iov_len)
            break;
    }
    return total;
}

ssize_t mr_socket_send(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                       uint64_t stall_ns, bool is_urgent)
{
    size_t wanted = mr_total_length(elements, count);
    if (socket->type == SOCK_DGRAM)
        return mr_datagram_send(machine, socket, elements, count, NULL);
    if (socket->state == MR_SOCKET_CONNECTING)
        return -EAGAIN;
    if (socket->error) {
        int error = socket->error;
        socket->error = 0;
        return -error;
    }
    if (socket->cannot_send)
        return -EPIPE;
    if (socket->state != MR_SOCKET_CONNECTED)
        return mr_is_internet(socket->family) ? -EPIPE : -ENOTCONN;
    if (socket->is_pipe_reader)
        return -EBADF;
    if (!socket->peer)
        return send_to_nobody(socket, wanted);
    if (socket->peer->cannot_receive)
        return mr_is_internet(socket->family) ? (ssize_t)wanted : -EPIPE;
    mr_stream *stream = &socket->peer->incoming;
    if (is_urgent) {
        stream->urgent_at = stream->used + 1; /* the urgent byte itself is out of band and is never received */
        return (ssize_t)wanted;
    }
    if (wanted == 0)
        return 0;
    if (mr_stream_room(stream) == 0)
        return -EAGAIN;
    uint32_t sent = append_all(stream, elements, count);
    if (sent == 0)
        return -ENOBUFS;
    machine->state.buffered_bytes += sent;
    transmit(machine, socket->peer, MR_SEGMENT_DATA, sent, stall_ns);
    return sent;
}

int mr_socket_shutdown(mr_machine *machine, mr_socket *socket, int how)
{
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return -EINVAL;
    if (socket->state == MR_SOCKET_LISTENING) {
        free_listener(machine, socket);
        socket->state = MR_SOCKET_FRESH;
    } else if (socket->state != MR_SOCKET_CONNECTED) {
        return -ENOTCONN;
    }
    if (how != SHUT_WR)
        socket->cannot_receive = true;
    if (how != SHUT_RD && !socket->cannot_send) {
        socket->cannot_send = true;
        if (socket->peer)
            transmit(machine, socket->peer, MR_SEGMENT_END, 0, 0);
    }
    mr_file_changed(machine, &socket->file);
    if (socket->peer)
        mr_file_changed(machine, &socket->peer->file);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- by number --- */

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
        discard(machine, socket);
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
    int number = new_number(machine, new_socket(machine, domain, kind), type & SOCK_NONBLOCK ? O_NONBLOCK : 0);
    MR_TRACE(machine, "socket %d", number);
    return unlock_with(machine, number);
}

/* Assigns numbers to both ends, or to none. */
static int install_pair(mr_machine *machine, mr_socket *ends[2], int flags, int numbers[2])
{
    if (ends[0] && ends[1])
        couple(ends[0], ends[1]);
    mr_machine_lock(machine);
    numbers[0] = new_number(machine, ends[0], flags);
    numbers[1] = numbers[0] < 0 ? numbers[0] : new_number(machine, ends[1], flags);
    int result = numbers[1] < 0 ? numbers[1] : 0;
    if (result && numbers[0] < 0 && ends[1])
        discard(machine, ends[1]);
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
    mr_socket *ends[2] = {new_socket(machine, domain, SOCK_STREAM), new_socket(machine, domain, SOCK_STREAM)};
    return install_pair(machine, ends, type & SOCK_NONBLOCK ? O_NONBLOCK : 0, pair);
}

int mr_machine_pipe(mr_machine *machine, int numbers[2], int flags)
{
    mr_socket *ends[2] = {new_socket(machine, AF_UNIX, SOCK_STREAM), new_socket(machine, AF_UNIX, SOCK_STREAM)};
    if (ends[0])
        ends[0]->is_pipe_reader = ends[0]->cannot_send = true;
    if (ends[1])
        ends[1]->is_pipe_writer = true;
    return install_pair(machine, ends, flags, numbers);
}

static bool is_taken(const mr_machine *machine, const mr_socket *socket, const mr_name *name)
{
    for (const mr_socket *each = machine->bound; each; each = each->next_bound)
        if (each->type == socket->type && mr_name_reaches(name, &each->local) &&
            !(socket->shares_port && each->shares_port))
            return true;
    return false;
}

static int choose_port(mr_machine *machine, const mr_socket *socket, mr_name *name)
{
    for (int port = FIRST_PORT; port <= LAST_PORT; port++) {
        name->port = next_port(machine);
        if (!is_taken(machine, socket, name))
            return 0;
    }
    return -EADDRINUSE;
}

/* The names that Linux gives to Unix sockets bound to no name (unix(7), "Autobind"). */
static int choose_path(mr_machine *machine, mr_name *name)
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
    mr_name name;
    if (socket->is_bound)
        return -EINVAL;
    int error = mr_name_from(address, length, &name);
    if (!error && name.family != socket->family)
        error = -EAFNOSUPPORT;
    if (!error && mr_is_internet(name.family) && name.port == 0)
        error = choose_port(machine, socket, &name);
    if (!error && name.family == AF_UNIX && name.path_length == 0)
        error = choose_path(machine, &name);
    if (!error && is_taken(machine, socket, &name))
        error = -EADDRINUSE;
    if (error) {
        mr_name_free(&name);
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
    return unlock_with(machine, connect_socket(machine, socket, address, length));
}

static int accept_from(mr_machine *machine, mr_socket *listener, struct sockaddr *address, socklen_t *length, int flags)
{
    if (listener->state != MR_SOCKET_LISTENING)
        return -EINVAL;
    if (!listener->listener->accepted.first)
        return -EAGAIN;
    int error = mr_machine_check_room(machine);
    if (error)
        return error;
    mr_socket *server = dequeue(&listener->listener->accepted);
    admit_waiting(machine, listener);
    if (server->error == ECONNRESET) {
        discard(machine, server);
        return -ECONNABORTED;
    }
    if (address)
        mr_name_to_address(&server->remote, server->family, address, length);
    return mr_machine_install(machine, &server->file, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
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
    mr_name_to_address(&socket->local, socket->family, address, length);
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
    mr_name_to_address(&socket->remote, socket->family, address, length);
    return unlock_with(machine, 0);
}

ssize_t mr_machine_send_to(mr_machine *machine, int number, const struct iovec *elements, size_t count,
                           const struct sockaddr *address, socklen_t length)
{
    int error;
    mr_name to;
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    if (socket->type == SOCK_STREAM || !address)
        return unlock_with(machine, (int)mr_socket_send(machine, socket, elements, count, 0, false));
    error = mr_name_from(address, length, &to);
    int result = error ? error : (int)mr_datagram_send(machine, socket, elements, count, &to);
    mr_name_free(&to);
    return unlock_with(machine, result);
}

ssize_t mr_machine_receive_from(mr_machine *machine, int number, const struct iovec *elements, size_t count,
                                struct sockaddr *address, socklen_t *length)
{
    int error;
    mr_name from = {0};
    mr_socket *socket = lock_socket(machine, number, &error);
    if (!socket)
        return error;
    int result = (int)(socket->type == SOCK_DGRAM ? mr_datagram_receive(machine, socket, elements, count, &from)
                                                  : mr_socket_receive(machine, socket, elements, count));
    if (result >= 0 && address && from.family)
        mr_name_to_address(&from, from.family, address, length);
    else if (result >= 0 && address) /* on a stream, or the end after a shutdown: the peer is the sender */
        mr_name_to_address(&socket->remote, socket->family, address, length);
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
