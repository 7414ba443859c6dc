/* socket_name.c: socket addresses in a compact form, and whether one reaches a bound socket. */
#include "machine.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

bool mr_is_internet(sa_family_t family)
{
    return family == AF_INET || family == AF_INET6;
}

static size_t address_bytes(sa_family_t family)
{
    return family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

int mr_socket_name_from(const struct sockaddr *address, socklen_t length, mr_socket_name *name)
{
    *name = (mr_socket_name){.family = address->sa_family};
    if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        name->port = in->sin_port;
        memcpy(name->ip, &in->sin_addr, sizeof in->sin_addr);
    } else if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        name->port = in6->sin6_port;
        memcpy(name->ip, &in6->sin6_addr, sizeof in6->sin6_addr);
    } else if (address->sa_family == AF_UNIX) {
        if (length < offsetof(struct sockaddr_un, sun_path) || length > sizeof(struct sockaddr_un))
            return -EINVAL;
        name->path_length = (uint8_t)(length - offsetof(struct sockaddr_un, sun_path));
        name->path = malloc(name->path_length + 1u);
        if (!name->path)
            return -ENOMEM;
        memcpy(name->path, ((const struct sockaddr_un *)address)->sun_path, name->path_length);
    } else {
        return -EAFNOSUPPORT;
    }
    return 0;
}

void mr_socket_name_free(mr_socket_name *name)
{
    free(name->path);
    *name = (mr_socket_name){0};
}

int mr_socket_name_copy(const mr_socket_name *from, mr_socket_name *to)
{
    *to = *from;
    if (!from->path)
        return 0;
    to->path = malloc(from->path_length + 1u);
    if (to->path)
        memcpy(to->path, from->path, from->path_length);
    return to->path ? 0 : -ENOMEM;
}

void mr_socket_name_to_address(const mr_socket_name *name, sa_family_t family, struct sockaddr *address,
                               socklen_t *length)
{
    struct sockaddr_storage storage = {.ss_family = family};
    socklen_t size = sizeof storage.ss_family;
    if (family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)&storage;
        in->sin_port = name->port;
        memcpy(&in->sin_addr, name->ip, sizeof in->sin_addr);
        size = sizeof *in;
    } else if (family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage;
        in6->sin6_port = name->port;
        memcpy(&in6->sin6_addr, name->ip, sizeof in6->sin6_addr);
        size = sizeof *in6;
    } else if (name->path) {
        memcpy(((struct sockaddr_un *)&storage)->sun_path, name->path, name->path_length);
        size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name->path_length);
    }
    memcpy(address, &storage, size < *length ? size : *length);
    *length = size;
}

bool mr_socket_name_is_any(const mr_socket_name *name)
{
    static const unsigned char zeros[16];
    return memcmp(name->ip, zeros, address_bytes(name->family)) == 0;
}

bool mr_socket_name_reaches(const mr_socket_name *wanted, const mr_socket_name *bound)
{
    if (wanted->family == AF_UNIX)
        return bound->family == AF_UNIX && wanted->path_length == bound->path_length &&
               memcmp(wanted->path, bound->path, bound->path_length) == 0;
    if (wanted->port != bound->port || !mr_is_internet(bound->family))
        return false;
    if (mr_socket_name_is_any(bound))
        return wanted->family == bound->family || bound->family == AF_INET6;
    return wanted->family == bound->family &&
           (mr_socket_name_is_any(wanted) || memcmp(wanted->ip, bound->ip, address_bytes(bound->family)) == 0);
}

void mr_socket_name_set_host(mr_socket_name *name, uint32_t host)
{
    host = htonl(host);
    if (name->family == AF_INET) {
        memcpy(name->ip, &host, sizeof host);
    } else {
        memcpy(name->ip + 12, &host, sizeof host);
        name->ip[10] = name->ip[11] = 0xff; /* an IPv4 address (RFC 4291, section 2.5.5.2) */
    }
}
