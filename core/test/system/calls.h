/*
 * calls.h: the POSIX calls of the tests, on the kernel's descriptors or, while there is a test_machine, on those of a
 * simulated machine. For posix.c, and for the cases that only POSIX systems have.
 *
 * Each function is the POSIX call of that name, and never blocks: -1 and errno on failure.
 */
#ifndef MILLRACE_TEST_CALLS_H
#define MILLRACE_TEST_CALLS_H

#include "millrace_machine.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The machine that has the tests' descriptors. NULL: they are the kernel's. */
extern mr_machine *test_machine;

int system_socket(int domain, int type, int protocol);
int system_socketpair(int domain, int type, int protocol, int pair[2]);
int system_bind(int descriptor, const struct sockaddr *address, socklen_t length);
int system_listen(int descriptor, int backlog);
int system_connect(int descriptor, const struct sockaddr *address, socklen_t length);
int system_accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags);
int system_getsockname(int descriptor, struct sockaddr *address, socklen_t *length);
int system_getsockopt(int descriptor, int level, int name, void *value, socklen_t *length);
int system_setsockopt(int descriptor, int level, int name, const void *value, socklen_t length);
ssize_t system_send(int descriptor, const void *data, size_t size, int flags);
ssize_t system_recv(int descriptor, void *buffer, size_t size, int flags);
int system_shutdown(int descriptor, int how);

ssize_t system_read(int descriptor, void *buffer, size_t size);
ssize_t system_write(int descriptor, const void *data, size_t size);
int system_close(int descriptor);
int system_fcntl(int descriptor, int command, int argument);
int system_dup3(int descriptor, int number, int flags);
int system_pipe2(int ends[2], int flags);
int system_eventfd(unsigned value, int flags);
int system_eventfd_write(int descriptor, uint64_t value);
int system_eventfd_read(int descriptor, uint64_t *value);
int system_memfd_create(const char *name);
int system_open(const char *path, int flags);
off_t system_lseek(int descriptor, off_t offset, int whence);

/* The limit of descriptor numbers (RLIMIT_NOFILE). */
int system_getrlimit(struct rlimit *limit);
int system_setrlimit(const struct rlimit *limit);
int system_open_descriptors(void);

/* poll(2) for one descriptor, without end: waits until it is readable (or else writable). */
void system_await(int descriptor, bool for_reading);

#endif
