/*
 * http_authority.h - the authority of a URI as HTTP uses it: uri-host [ ":" port ] (RFC 9110, section 7.2; RFC 3986,
 * section 3.2). Must not know: requests.
 */
#ifndef HTTP_AUTHORITY_H
#define HTTP_AUTHORITY_H

#include <stddef.h>
#include <stdint.h>

/*
 * True for a non-empty host, optionally with a colon and a port, which is empty or from 0 to 65535. False with user
 * information (RFC 9110, section 4.2.4).
 */
int http_authority_is_valid(const uint8_t *bytes, size_t length);

/* True for a host with a port from 1 to 65535, as CONNECT needs them (RFC 9110, section 9.3.6). */
int http_authority_is_target(const uint8_t *bytes, size_t length);

#endif
