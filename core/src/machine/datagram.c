/* datagram.c: datagrams, which may be lost, duplicated and reordered. */
#include "datagram.h"

#include "file.h"
#include "socket.h"
#include "socket_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DATAGRAM_MAX = 65507 }; /* UDP over IPv4: 65,535 minus 8 for its header and 20 for the header of IP */

/* The address that a receiver sees. For a socket bound to any address it is this host's. */
static mr_socket_name source_of(const mr_socket *socket)
{
    mr_socket_name source = socket->local;
    if (mr_socket_name_is_any(&source))
        mr_socket_name_set_host(&source, INADDR_LOOPBACK);
    return source;
}

static mr_datagram *new_datagram(const struct iovec *elements, size_t count, mr_socket_name source)
{
    size_t size = mr_total_length(elements, count), done = 0;
    mr_datagram *datagram = malloc(sizeof *datagram + size);
    if (!datagram)
        return NULL;
    *datagram = (mr_datagram){.source = source, .size = (uint32_t)size};
    for (size_t i = 0; i < count; done += elements[i++].iov_len)
        if (elements[i].iov_len)
            memcpy(datagram->bytes + done, elements[i].iov_base, elements[i].iov_len);
    return datagram;
}

static mr_datagram *copy_datagram(const mr_datagram *original)
{
    struct iovec whole = {(void *)(uintptr_t)original->bytes, original->size};
    return new_datagram(&whole, 1, original->source);
}

static void drop(mr_machine *machine, mr_datagram *datagram)
{
    machine->state.buffered_bytes -= datagram->size;
    free(datagram);
}

/* Finds the socket that gets a datagram. A socket with a peer receives only from that peer. If several sockets share a
 * port, one is chosen at random. */
static mr_socket *find_receiver(mr_machine *machine, const mr_socket_name *to, const mr_socket_name *source)
{
    unsigned matching = 0;
    mr_socket *found = NULL;
    for (mr_socket *each = machine->bound; each; each = each->next_bound) {
        if (each->type != SOCK_DGRAM || !mr_socket_name_reaches(to, &each->local) ||
            (each->state == MR_SOCKET_CONNECTED && !mr_socket_name_reaches(&each->remote, source)))
            continue;
        if (++matching == 1 || mr_machine_draw(machine, matching) == 0)
            found = each;
    }
    return found;
}

void mr_datagram_arrives(mr_machine *machine, mr_socket *socket, mr_datagram *datagram)
{
    uint64_t used = 0;
    for (const mr_datagram *each = socket->datagrams; each; each = each->next)
        used += each->size;
    if (socket->is_gone || socket->cannot_receive || used + datagram->size > socket->incoming.capacity) {
        drop(machine, datagram);
        return;
    }
    if (socket->datagrams)
        socket->last_datagram->next = datagram;
    else
        socket->datagrams = datagram;
    socket->last_datagram = datagram;
    mr_file_changed(machine, &socket->file);
}

void mr_datagrams_drop(mr_machine *machine, mr_socket *socket)
{
    for (mr_datagram *next; socket->datagrams; socket->datagrams = next) {
        next = socket->datagrams->next;
        drop(machine, socket->datagrams);
    }
}

/* Without memory the datagram is lost. */
static void transmit(mr_machine *machine, mr_socket *receiver, mr_datagram *datagram, uint64_t longer_ns)
{
    if (!datagram)
        return;
    machine->state.buffered_bytes += datagram->size;
    uint64_t then_ns = mr_arrival_ns(machine, &receiver->incoming, datagram->size) + longer_ns;
    if (then_ns <= mr_machine_now_ns(machine))
        mr_datagram_arrives(machine, receiver, datagram);
    else
        mr_machine_schedule(machine, then_ns,
                            (mr_event){.kind = MR_EVENT_DATAGRAM, .socket = receiver, .datagram = datagram});
}

static void transmit_with_faults(mr_machine *machine, mr_socket *receiver, mr_datagram *datagram)
{
    mr_fault fault =
        mr_machine_next_fault(machine, 1u << MR_FAULT_LOSS | 1u << MR_FAULT_DUPLICATION | 1u << MR_FAULT_OVERTAKEN);
    if (fault == MR_FAULT_LOSS) {
        free(datagram);
        return;
    }
    if (fault == MR_FAULT_DUPLICATION)
        transmit(machine, receiver, copy_datagram(datagram), 0);
    transmit(machine, receiver, datagram, fault == MR_FAULT_OVERTAKEN ? mr_machine_delay_ns(machine) : 0);
}

static int take_error(mr_socket *socket)
{
    int error = socket->error;
    socket->error = 0;
    return -error;
}

ssize_t mr_datagram_send(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                         const mr_socket_name *to)
{
    size_t size = mr_total_length(elements, count);
    if (socket->error)
        return take_error(socket);
    if (socket->cannot_send)
        return -EPIPE;
    if (!to && socket->state != MR_SOCKET_CONNECTED)
        return -EDESTADDRREQ;
    if (size > DATAGRAM_MAX)
        return -EMSGSIZE;
    int error = mr_socket_bind_anywhere(machine, socket);
    if (error)
        return error;
    mr_socket *receiver = find_receiver(machine, to ? to : &socket->remote, &socket->local);
    if (!receiver && !to)
        socket->error = ECONNREFUSED; /* the network reports this to a socket with a peer (udp(7)) */
    if (!receiver)
        return (ssize_t)size;
    mr_datagram *datagram = new_datagram(elements, count, source_of(socket));
    if (!datagram)
        return -ENOBUFS;
    transmit_with_faults(machine, receiver, datagram);
    return (ssize_t)size;
}

static uint32_t copy_out(const mr_datagram *datagram, const struct iovec *elements, size_t count)
{
    uint32_t done = 0;
    for (size_t i = 0; i < count && done < datagram->size; i++) {
        uint32_t left = datagram->size - done;
        uint32_t size = elements[i].iov_len < left ? (uint32_t)elements[i].iov_len : left;
        memcpy(elements[i].iov_base, datagram->bytes + done, size);
        done += size;
    }
    return done;
}

ssize_t mr_datagram_receive(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                            mr_socket_name *from)
{
    mr_datagram *first = socket->datagrams;
    if (socket->error)
        return take_error(socket);
    if (!first)
        return socket->cannot_receive ? 0 : -EAGAIN;
    socket->datagrams = first->next;
    uint32_t received = copy_out(first, elements, count);
    if (from)
        *from = first->source;
    drop(machine, first);
    return received;
}

int mr_datagram_connect(mr_machine *machine, mr_socket *socket, const struct sockaddr *address, socklen_t length)
{
    mr_socket_name peer;
    int error = mr_socket_name_from(address, length, &peer);
    if (error)
        return error;
    if (peer.family != socket->family) {
        mr_socket_name_free(&peer);
        return -EAFNOSUPPORT;
    }
    error = mr_socket_bind_anywhere(machine, socket);
    if (error)
        return error;
    socket->remote = peer;
    socket->state = MR_SOCKET_CONNECTED;
    return 0;
}
