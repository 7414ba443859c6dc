/* socket.c: connections of a simulated machine, listeners and their queues, and pipes, which are streams with one
 * direction. socket_calls.c has the calls that name a socket by its number. */
#include "socket.h"

#include "datagram.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- names --- */

in_port_t mr_socket_next_port(mr_machine *machine)
{
    if (machine->next_port < MR_FIRST_PORT || machine->next_port > MR_LAST_PORT) {
        machine->next_port = MR_FIRST_PORT;
        machine->next_host++; /* another client's address */
    }
    return htons(machine->next_port++);
}

/* Gives an address to a client that is not bound. */
static void name_client(mr_machine *machine, mr_socket *client)
{
    if (client->is_bound || client->local.family != AF_UNSPEC || !mr_is_internet(client->family))
        return;
    client->local = (mr_socket_name){.family = client->family, .port = mr_socket_next_port(machine)};
    mr_socket_name_set_host(&client->local, INADDR_LOOPBACK + machine->next_host - 1);
}

/* ----------------------------------------------------------------------------------------------- life and death --- */

mr_socket *mr_socket_new(const mr_machine *machine, int family, int type)
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

void mr_socket_connect_pair(mr_socket *a, mr_socket *b)
{
    a->peer = b;
    b->peer = a;
    a->state = b->state = MR_SOCKET_CONNECTED;
    a->has_reported_success = b->has_reported_success = true;
}

static void drop_incoming(mr_machine *machine, mr_socket *socket)
{
    machine->state.buffered_bytes -= socket->incoming.used;
    mr_stream_clear(&socket->incoming);
}

void mr_socket_discard(mr_machine *machine, mr_socket *socket)
{
    drop_incoming(machine, socket);
    mr_datagrams_drop(machine, socket);
    mr_socket_name_free(&socket->local);
    mr_socket_name_free(&socket->remote);
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

mr_socket *mr_socket_queue_pop(mr_socket_queue *queue)
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
    for (mr_socket *each; (each = mr_socket_queue_pop(queue));)
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

/* Sends a segment to a socket. Its bytes are in the stream already. Without memory for the segment it arrives at
 * once. */
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
        mr_machine_schedule(machine, then_ns, (mr_event){.kind = MR_EVENT_ARRIVAL, .socket = receiver});
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
        mr_machine_schedule(machine, segment->next->arrival_ns, (mr_event){.kind = MR_EVENT_ARRIVAL, .socket = socket});
    arrive(machine, socket, segment->kind, segment->size);
    free(segment);
}

void mr_socket_reset(mr_machine *machine, mr_socket *socket)
{
    mr_socket *peer = socket->peer;
    take_reset(machine, socket);
    if (peer)
        take_reset(machine, peer);
}

/* ------------------------------------------------------------------------------------------------- connecting --- */

static void establish(mr_machine *machine, mr_socket *client, mr_socket *listener)
{
    mr_socket *server = mr_socket_new(machine, client->family, client->type);
    if (!server || mr_socket_name_copy(&client->remote, &server->local) ||
        mr_socket_name_copy(&client->local, &server->remote)) {
        if (server)
            mr_socket_discard(machine, server);
        client->state = MR_SOCKET_FRESH;
        client->error = ENOMEM;
        mr_file_changed(machine, &client->file);
        return;
    }
    mr_socket_connect_pair(client, server);
    client->has_reported_success = false;
    enqueue(&listener->listener->accepted, server);
    mr_file_changed(machine, &listener->file);
    mr_file_changed(machine, &client->file);
}

static bool has_free_slot(const mr_listener *listener)
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

void mr_socket_admit_waiting(mr_machine *machine, mr_socket *listener)
{
    while (has_free_slot(listener->listener) && listener->listener->waiting.count) {
        mr_socket *client = mr_socket_queue_pop(&listener->listener->waiting);
        client->target = NULL;
        establish(machine, client, listener);
    }
}

/* Finds a listener. If several share a port, one is chosen at random. */
static mr_socket *find_listener(mr_machine *machine, const mr_socket_name *name, bool *is_bound)
{
    unsigned matching = 0;
    mr_socket *found = NULL;
    *is_bound = false;
    for (mr_socket *each = machine->bound; each; each = each->next_bound) {
        if (each->type != SOCK_STREAM || !mr_socket_name_reaches(name, &each->local))
            continue;
        *is_bound = true;
        if (each->state == MR_SOCKET_LISTENING && (++matching == 1 || mr_machine_draw(machine, matching) == 0))
            found = each;
    }
    return found;
}

/* Handles a connection attempt that has reached its destination. */
static void connect_arrives(mr_machine *machine, mr_socket *client)
{
    bool is_bound;
    mr_socket *listener = find_listener(machine, &client->remote, &is_bound);
    if (!listener) {
        refuse(machine, client);
    } else if (has_free_slot(listener->listener)) {
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
    if (!has_free_slot(listener->listener))
        return -EAGAIN;
    establish(machine, client, listener);
    client->has_reported_success = true;
    return client->error ? -client->error : 0;
}

static int begin_connect(mr_machine *machine, mr_socket *client, const struct sockaddr *address, socklen_t length)
{
    mr_socket_name_free(&client->remote);
    int error = mr_socket_name_from(address, length, &client->remote);
    if (error)
        return error;
    if (client->remote.family != client->family)
        return -EAFNOSUPPORT;
    if (client->family == AF_UNIX)
        return connect_unix(machine, client);
    name_client(machine, client);
    client->state = MR_SOCKET_CONNECTING;
    if (machine->plan.latency_ns)
        mr_machine_schedule(machine, mr_machine_now_ns(machine) + 2 * machine->plan.latency_ns,
                            (mr_event){.kind = MR_EVENT_CONNECT, .socket = client});
    else
        connect_arrives(machine, client);
    return -EINPROGRESS;
}

int mr_socket_connect(mr_machine *machine, mr_socket *client, const struct sockaddr *address, socklen_t length)
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
        if (client->has_reported_success)
            return -EISCONN;
        client->has_reported_success = true;
        return 0;
    default:
        return -EINVAL;
    }
}

void mr_socket_handle_event(mr_machine *machine, const mr_event *what)
{
    if (what->kind == MR_EVENT_DATAGRAM)
        mr_datagram_arrives(machine, what->socket, what->datagram);
    else if (what->socket->is_gone)
        return;
    else if (what->kind == MR_EVENT_ARRIVAL)
        first_arrives(machine, what->socket);
    else
        connect_arrives(machine, what->socket);
}

/* ---------------------------------------------------------------------------------------------------- closing --- */

static void free_listener(mr_machine *machine, mr_socket *listener)
{
    for (mr_socket *server; (server = mr_socket_queue_pop(&listener->listener->accepted));) {
        if (server->peer)
            transmit(machine, server->peer, MR_SEGMENT_RESET, 0, 0);
        if (server->peer)
            server->peer->peer = NULL;
        mr_socket_discard(machine, server);
    }
    for (mr_socket *client; (client = mr_socket_queue_pop(&listener->listener->waiting));)
        refuse(machine, client);
}

static void forget_name(mr_machine *machine, mr_socket *socket)
{
    for (mr_socket **link = &machine->bound; *link; link = &(*link)->next_bound) {
        if (*link == socket) {
            *link = socket->next_bound;
            return;
        }
    }
}

/* Closing with unread bytes, or with an SO_LINGER time of 0, resets the connection (RFC 2525, section 2.17). Unix
 * sockets do the same. */
static void send_end_or_reset(mr_machine *machine, mr_socket *socket)
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
        send_end_or_reset(machine, socket);
    mr_socket_discard(machine, socket);
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
        return !socket->peer || mr_stream_free_space(&socket->peer->incoming) > 0 ? 0 : -EAGAIN;
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

/* Sends after the other end was closed. Over a network, the first such send does not notice that yet. */
static ssize_t send_after_peer_closed(mr_socket *socket, size_t size)
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
        uint32_t space = mr_stream_free_space(stream);
        uint32_t size = elements[i].iov_len < space ? (uint32_t)elements[i].iov_len : space;
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
        return send_after_peer_closed(socket, wanted);
    if (socket->peer->cannot_receive)
        return mr_is_internet(socket->family) ? (ssize_t)wanted : -EPIPE;
    mr_stream *stream = &socket->peer->incoming;
    if (is_urgent) {
        stream->urgent_at = stream->used + 1; /* the urgent byte itself is out of band and is never received */
        return (ssize_t)wanted;
    }
    if (wanted == 0)
        return 0;
    if (mr_stream_free_space(stream) == 0)
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
