/*
 * name.c: looks up names on helper threads, because libc's resolver waits in internal calls that cannot be interposed,
 * needs much stack, and keeps its state per thread. Look-ups are not interrupted, because the helper writes into the
 * caller's memory.
 */
#include "../offload.h"
#include "blocking.h"
#include "libc.h"

#include <string.h>

MF_ALWAYS_LINKED(name);

/* The arguments and results of all kinds of look-ups; each uses some of them. */
typedef struct lookup {
    const char *name, *service;
    const struct addrinfo *hints;
    struct addrinfo **addresses;
    const void *address;
    socklen_t address_size;
    char *host, *service_buffer;
    socklen_t host_size, service_size;
    int flags, family;
    struct hostent *entry;
    char *buffer;
    size_t buffer_size;
    struct hostent **found;
    int *host_error;
    int result;
    int thread_host_error; /* h_errno of the helper */
} lookup;

/* Runs a look-up on a helper thread and copies that thread's h_errno. */
static void look_up(lookup *l, mf_work work)
{
    mf_offload_name(work, l);
    if (l->thread_host_error)
        h_errno = l->thread_host_error;
}

static void do_getaddrinfo(void *argument)
{
    lookup *l = argument;
    l->result = LIBC(getaddrinfo)(l->name, l->service, l->hints, l->addresses);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **addresses)
{
    if (!mf_current)
        return LIBC(getaddrinfo)(name, service, hints, addresses);
    lookup l = {.name = name, .service = service, .hints = hints, .addresses = addresses};
    look_up(&l, do_getaddrinfo);
    return l.result;
}

static void do_getnameinfo(void *argument)
{
    lookup *l = argument;
    l->result = LIBC(getnameinfo)(l->address, l->address_size, l->host, l->host_size, l->service_buffer,
                                  l->service_size, l->flags);
}

int getnameinfo(const struct sockaddr *address, socklen_t address_size, char *host, socklen_t host_size, char *service,
                socklen_t service_size, int flags)
{
    if (!mf_current)
        return LIBC(getnameinfo)(address, address_size, host, host_size, service, service_size, flags);
    lookup l = {.address = address,
                .address_size = address_size,
                .host = host,
                .host_size = host_size,
                .service_buffer = service,
                .service_size = service_size,
                .flags = flags};
    look_up(&l, do_getnameinfo);
    return l.result;
}

static void do_gethostbyname(void *argument)
{
    lookup *l = argument;
    l->entry = LIBC(gethostbyname)(l->name);
    l->thread_host_error = h_errno;
}

/* The result is a static record of the process, which fibers and threads share. */
struct hostent *gethostbyname(const char *name)
{
    if (!mf_current)
        return LIBC(gethostbyname)(name);
    lookup l = {.name = name};
    look_up(&l, do_gethostbyname);
    return l.entry;
}

static void do_gethostbyname2(void *argument)
{
    lookup *l = argument;
    l->entry = LIBC(gethostbyname2)(l->name, l->family);
    l->thread_host_error = h_errno;
}

struct hostent *gethostbyname2(const char *name, int family)
{
    if (!mf_current)
        return LIBC(gethostbyname2)(name, family);
    lookup l = {.name = name, .family = family};
    look_up(&l, do_gethostbyname2);
    return l.entry;
}

static void do_gethostbyaddr(void *argument)
{
    lookup *l = argument;
    l->entry = LIBC(gethostbyaddr)(l->address, l->address_size, l->family);
    l->thread_host_error = h_errno;
}

struct hostent *gethostbyaddr(const void *address, socklen_t size, int family)
{
    if (!mf_current)
        return LIBC(gethostbyaddr)(address, size, family);
    lookup l = {.address = address, .address_size = size, .family = family};
    look_up(&l, do_gethostbyaddr);
    return l.entry;
}

static void do_gethostbyname_r(void *argument)
{
    lookup *l = argument;
    l->result = LIBC(gethostbyname_r)(l->name, l->entry, l->buffer, l->buffer_size, l->found, l->host_error);
}

int gethostbyname_r(const char *name, struct hostent *entry, char *buffer, size_t size, struct hostent **found,
                    int *host_error)
{
    if (!mf_current)
        return LIBC(gethostbyname_r)(name, entry, buffer, size, found, host_error);
    lookup l = {
        .name = name, .entry = entry, .buffer = buffer, .buffer_size = size, .found = found, .host_error = host_error};
    look_up(&l, do_gethostbyname_r);
    return l.result;
}

static void do_gethostbyname2_r(void *argument)
{
    lookup *l = argument;
    l->result =
        LIBC(gethostbyname2_r)(l->name, l->family, l->entry, l->buffer, l->buffer_size, l->found, l->host_error);
}

int gethostbyname2_r(const char *name, int family, struct hostent *entry, char *buffer, size_t size,
                     struct hostent **found, int *host_error)
{
    if (!mf_current)
        return LIBC(gethostbyname2_r)(name, family, entry, buffer, size, found, host_error);
    lookup l = {.name = name,
                .family = family,
                .entry = entry,
                .buffer = buffer,
                .buffer_size = size,
                .found = found,
                .host_error = host_error};
    look_up(&l, do_gethostbyname2_r);
    return l.result;
}

static void do_gethostbyaddr_r(void *argument)
{
    lookup *l = argument;
    l->result = LIBC(gethostbyaddr_r)(l->address, l->address_size, l->family, l->entry, l->buffer, l->buffer_size,
                                      l->found, l->host_error);
}

int gethostbyaddr_r(const void *address, socklen_t size, int family, struct hostent *entry, char *buffer,
                    size_t buffer_size, struct hostent **found, int *host_error)
{
    if (!mf_current)
        return LIBC(gethostbyaddr_r)(address, size, family, entry, buffer, buffer_size, found, host_error);
    lookup l = {.address = address,
                .address_size = size,
                .family = family,
                .entry = entry,
                .buffer = buffer,
                .buffer_size = buffer_size,
                .found = found,
                .host_error = host_error};
    look_up(&l, do_gethostbyaddr_r);
    return l.result;
}
