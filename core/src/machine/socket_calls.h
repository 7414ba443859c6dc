/* socket_calls.h: finds and binds sockets for the calls of millrace_machine.h. */
#ifndef MILLRACE_MACHINE_SOCKET_CALLS_H
#define MILLRACE_MACHINE_SOCKET_CALLS_H

#include "machine.h"

mr_socket *mr_socket_of(mr_machine *machine, int number, int *error);
/* Binds a socket to any port, unless it is bound. */
int mr_socket_bind_anywhere(mr_machine *machine, mr_socket *socket);

#endif
