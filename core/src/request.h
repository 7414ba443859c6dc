/* request.h: what makes a request complete in itself, and what is left of one after a part was done. Must not know: system calls. */
#ifndef MILLRACE_REQUEST_H
#define MILLRACE_REQUEST_H

#include "operation.h"

/* 0 for a request that is complete in itself, or -EINVAL. */
int mr_check_request(const mr_request *request);

/* Whether the request names at least one byte of memory. */
bool mr_wants_bytes(const mr_request *request);

/* Advances a transfer by what was moved. Returns true when nothing is left. */
bool mr_advance(mr_request *request, uint64_t transferred);

#endif
