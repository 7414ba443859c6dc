/* request.h: checks requests, and advances one after a partial transfer. Must not know: system calls. */
#ifndef MILLRACE_REQUEST_H
#define MILLRACE_REQUEST_H

#include "operation.h"

/* Returns 0 if the request is valid by itself, -EINVAL if not, -EBADF if the operation does not accept a foreign
 * descriptor. */
int mr_check_request(const mr_request *request);

/* Whether the request names at least one byte of memory. */
bool mr_wants_bytes(const mr_request *request);

/* Advances a request past the transferred bytes. Returns true when none are left. */
bool mr_advance(mr_request *request, uint64_t transferred);

#endif
