/*
 * names.h: what helper threads do for names of hosts and services (pool.h). Must not know: GHC, loops.
 */
#ifndef MILLRACE_NAMES_H
#define MILLRACE_NAMES_H

#include "pool.h"

/*
 * host, service (each may be NULL); flags, family, type, protocol. The output: for each address flags, family, type,
 * protocol and the number of its bytes (five int32_t), and the address, in the next sizeof(struct sockaddr_storage) bytes;
 * then the canonical name, if it was asked for. The result is the number of addresses. An error of getaddrinfo (gai_strerror)
 * is a result of -MRH_NAME_ERROR minus its number; EAI_SYSTEM is the system's own error.
 */
mrh_work mrh_do_find_addresses;

/* The memory is an address; its bytes, flags. The output is the name of the host and of the service, each with a NUL. */
mrh_work mrh_do_find_name;

enum { MRH_NAME_ERROR = 100000 };

#endif
