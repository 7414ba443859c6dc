/* machine_calls.h: a simulated machine for the tests of its calls. */
#ifndef MILLRACE_UNIT_MACHINE_CALLS_H
#define MILLRACE_UNIT_MACHINE_CALLS_H

#include "../../src/machine/machine.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define NS_PER_MS UINT64_C(1000000)

static inline mr_machine *new_machine(const mr_machine_plan *plan)
{
    mr_machine *machine;
    CHECK_EQ(mr_machine_create(plan, &machine), 0);
    return machine;
}

static inline mr_machine *plain_machine(void)
{
    return new_machine(&(mr_machine_plan){.seed = 3});
}

static inline struct iovec bytes_of(const char *text)
{
    return (struct iovec){(void *)(uintptr_t)text, strlen(text)};
}

static inline ssize_t send_text(mr_machine *machine, int number, const char *text)
{
    struct iovec element = bytes_of(text);
    return mr_machine_send(machine, number, &element, 1, 0);
}

static inline ssize_t receive_byte(mr_machine *machine, int number)
{
    char byte;
    struct iovec element = {&byte, 1};
    return mr_machine_receive(machine, number, &element, 1, 0);
}

static inline void closed(mr_machine *machine, int number)
{
    CHECK_EQ(mr_machine_close(machine, number), 0);
}

/* An address of any family. `port` is a port, or part of the path of a Unix socket. */
typedef struct endpoint {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } of;
    socklen_t length;
} endpoint;

static inline endpoint endpoint_in(int family, in_port_t port)
{
    endpoint p = {.of.any.sa_family = (sa_family_t)family};
    if (family == AF_INET) {
        p.of.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        p.of.in.sin_port = htons(port);
        p.length = sizeof p.of.in;
    } else if (family == AF_INET6) {
        p.of.in6.sin6_addr = in6addr_loopback;
        p.of.in6.sin6_port = htons(port);
        p.length = sizeof p.of.in6;
    } else {
        int length = port ? snprintf(p.of.un.sun_path, sizeof p.of.un.sun_path, "/socket%u", port) : 0;
        p.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
    }
    return p;
}

static inline int bound_to(mr_machine *machine, int family, int type, in_port_t port)
{
    endpoint p = endpoint_in(family, port);
    int number = MUST(mr_machine_socket(machine, family, type, 0));
    CHECK_EQ(mr_machine_bind(machine, number, &p.of.any, p.length), 0);
    return number;
}

static inline int connect_to(mr_machine *machine, int number, int family, in_port_t port)
{
    endpoint p = endpoint_in(family, port);
    return mr_machine_connect(machine, number, &p.of.any, p.length);
}

#endif
