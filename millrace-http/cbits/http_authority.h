/*
 * http_authority.h - the authority of a URI as HTTP uses it: uri-host [ ":" port ] (RFC 9110, section 7.2; RFC 3986,
 * section 3.2). Must not know: requests.
 */
#ifndef HTTP_AUTHORITY_H
#define HTTP_AUTHORITY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Whether these bytes are a host that is not empty, with an optional port from 0 to 65535, which may be empty. User
 * information is an error (RFC 9110, section 4.2.4).
 */
int http_authority_is_valid(const uint8_t *bytes, size_t length);

/* The same with a port from 1 on, as CONNECT needs it (RFC 9110, section 9.3.6). */
int http_authority_is_target(const uint8_t *bytes, size_t length);

#endif
