/*
 * names.h: jobs of helper threads (pool.h) that look up hosts and services. Must not know: GHC, loops.
 */
#ifndef MILLRACE_NAMES_H
#define MILLRACE_NAMES_H

#include "pool.h"

/*
 * Calls getaddrinfo. Texts: host, service (each may be NULL). Numbers: flags, family, type, protocol. Output: for each
 * address its flags, family, type, protocol and length (int32_t each, and one unused), then the address in
 * sizeof(struct sockaddr_storage) bytes; at the end the canonical name, empty unless requested. Result: the number of
 * addresses; an error of getaddrinfo (gai_strerror) as -MRH_NAME_ERROR minus its number; for EAI_SYSTEM, and if
 * descriptors have run out, the negative errno.
 */
mrh_work mrh_do_find_addresses;

/* Calls getnameinfo. Memory: an address. Numbers: its length, flags. Output: the names of the host and of the service,
 * each with a NUL. Result: 0, or an error as above. */
mrh_work mrh_do_find_name;

enum { MRH_NAME_ERROR = 100000 };

#endif
