/* socket.h: stream sockets: connecting, sending, receiving, closing. */
#ifndef MILLRACE_MACHINE_SOCKET_H
#define MILLRACE_MACHINE_SOCKET_H

#include "machine.h"

enum { MR_FIRST_PORT = 32768, MR_LAST_PORT = 60999 }; /* Linux's ip_local_port_range */

/* Returns a socket, or NULL without memory. */
mr_socket *mr_socket_new(const mr_machine *machine, int family, int type);
/* Connects two sockets to each other. */
void mr_socket_connect_pair(mr_socket *a, mr_socket *b);
/* Drops a socket without descriptor numbers. It is freed after the last event for it. */
void mr_socket_discard(mr_machine *machine, mr_socket *socket);
/* The port that was used least recently. */
in_port_t mr_socket_next_port(mr_machine *machine);
int mr_socket_connect(mr_machine *machine, mr_socket *client, const struct sockaddr *address, socklen_t length);
/* Removes the first socket of a queue; NULL if it is empty. */
mr_socket *mr_socket_queue_pop(mr_socket_queue *queue);
/* Connects waiting clients while the listener's queue is not full. */
void mr_socket_admit_waiting(mr_machine *machine, mr_socket *listener);
void mr_socket_handle_event(mr_machine *machine, const mr_event *what);
void mr_socket_free(mr_machine *machine, mr_socket *socket);
int mr_socket_readable(const mr_socket *socket);
int mr_socket_writable(const mr_socket *socket);
ssize_t mr_socket_receive(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count);
/* `stall_ns` is an additional delay. */
ssize_t mr_socket_send(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                       uint64_t stall_ns, bool is_urgent);
/* Resets a connection at both ends. */
void mr_socket_reset(mr_machine *machine, mr_socket *socket);
int mr_socket_shutdown(mr_machine *machine, mr_socket *socket, int how);
size_t mr_total_length(const struct iovec *elements, size_t count);
/* The time at which `size` bytes that are sent to this stream now will have arrived. */
uint64_t mr_arrival_ns(mr_machine *machine, mr_stream *stream, uint32_t size);

#endif
