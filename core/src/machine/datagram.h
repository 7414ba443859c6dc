/* datagram.h: sockets of type SOCK_DGRAM. */
#ifndef MILLRACE_MACHINE_DATAGRAM_H
#define MILLRACE_MACHINE_DATAGRAM_H

#include "machine.h"

/* Connect and send. If `to` is NULL, the peer is the receiver. */
int mr_datagram_connect(mr_machine *machine, mr_socket *socket, const struct sockaddr *address, socklen_t length);
ssize_t mr_datagram_send(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                         const mr_socket_name *to);
ssize_t mr_datagram_receive(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                            mr_socket_name *from);
void mr_datagram_arrives(mr_machine *machine, mr_socket *socket, mr_datagram *datagram);
/* Frees the datagrams that were not received. */
void mr_datagrams_drop(mr_machine *machine, mr_socket *socket);

#endif
