/*
 * interpose_test.h: what the tests of the interposed calls share. Each case runs on every backend with one carrier, so
 * that a call that blocks its carrier stops every other fiber.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_TEST_H
#define MILLRACE_FIBER_INTERPOSE_TEST_H

#include "../fiber_test.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From GCC 14 on, AddressSanitizer gives a new thread its creator's signal mask, whatever its attributes say, and calls
 * of libc go through its own functions. With GCC 15's, sigaction does not return the earlier action, so a call that
 * waits in the kernel cannot be interrupted: such calls are retried. */
#if defined __SANITIZE_ADDRESS__ && defined __GNUC__
#define SKIP_UNDER_ASAN_FROM_GCC(version)                                                   \
    do {                                                                                    \
        if (__GNUC__ >= (version))                                                          \
            SKIP("this AddressSanitizer interposes calls for signals, with fewer effects"); \
    } while (0)
#else
#define SKIP_UNDER_ASAN_FROM_GCC(version) ((void)0)
#endif

#define INTERPOSE_FILES(X) \
    X(close)               \
    X(defects)             \
    X(last_receive)        \
    X(file)                \
    X(interrupt)           \
    X(jump)                \
    X(masked)              \
    X(name)                \
    X(once)                \
    X(poll)                \
    X(process)             \
    X(pthread)             \
    X(pthread_other)       \
    X(pthread_robust)      \
    X(pthread_rwlock)      \
    X(receive)             \
    X(report)              \
    X(scan)                \
    X(send)                \
    X(sent)                \
    X(server)              \
    X(signal)              \
    X(sleep)               \
    X(stream)              \
    X(stream_flush)        \
    X(stream_locks)        \
    X(stream_steps)        \
    X(syscall)             \
    X(terminal)            \
    X(c11)                 \
    X(vain)

#define INTERPOSE_DECLARE(file) extern const fiber_case file##_cases[];
INTERPOSE_FILES(INTERPOSE_DECLARE)
#undef INTERPOSE_DECLARE

/*
 * Runs a function that waits for PAUSE_MS on a fiber, while another fiber of the same carrier sleeps 10 ms at a time.
 * Fails if the other fiber ran too rarely, that is if the function blocked the carrier. On a busy machine most of its
 * runs may be missing.
 */
enum { PAUSE_MS = 300 };
void must_leave_carrier_free(void *(*run)(void *), void *argument);

/* A connected pair of Unix stream sockets. */
typedef struct pair {
    int ends[2];
} pair;

pair new_pair(void);
void close_pair(pair *p);

/* The number of this process's open descriptors, including the one that counts them. */
int open_descriptors(void);

/* True if the loaded glibc has this version or a later one. Only for what differs between releases. */
bool is_glibc_since(int major, int minor);

/* What an emulated kernel may lack. Each function tests one feature. */
bool has_robust_mutexes(void);
bool has_preadv2(void);                  /* the kernel; libc does a part without it */
bool has_own_system_calls_in_proc(void); /* /proc/self/task/ID/syscall describes this program, not its emulator */

/* Creates a TCP listener on an unused port and writes its address. */
int listen_on_loopback(struct sockaddr_in *address, int backlog);

#endif
