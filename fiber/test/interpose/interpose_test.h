/*
 * interpose_test.h: what the tests of the interposed calls share. Each case runs on every backend with one carrier, so that
 * a call that blocks its carrier stops every other fiber.
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
 * of libc go through its own functions. With GCC 15's, sigaction does not tell of the earlier action, so that a call
 * that waits in the kernel cannot be interrupted: such calls are tried again and again. */
#if defined __SANITIZE_ADDRESS__ && defined __GNUC__
#define SKIP_UNDER_ASAN_FROM_GCC(version)                                                  \
    do {                                                                                   \
        if (__GNUC__ >= (version))                                                         \
            SKIP("this AddressSanitizer has calls for signals of its own, which do less"); \
    } while (0)
#else
#define SKIP_UNDER_ASAN_FROM_GCC(version) ((void)0)
#endif

#define INTERPOSE_FILES(X) \
    X(close)               \
    X(defects)             \
    X(emptied)             \
    X(file)                \
    X(interrupt)           \
    X(jump)                \
    X(masked)              \
    X(name)                \
    X(once)                \
    X(poll)                \
    X(process)             \
    X(pthread)             \
    X(receive)             \
    X(report)              \
    X(scan)                \
    X(send)                \
    X(sent)                \
    X(server)              \
    X(signal)              \
    X(sleep)               \
    X(stream)              \
    X(syscall)             \
    X(terminal)            \
    X(c11)                 \
    X(vain)

#define INTERPOSE_DECLARE(file) extern const fiber_case file##_cases[];
INTERPOSE_FILES(INTERPOSE_DECLARE)
#undef INTERPOSE_DECLARE

/*
 * Runs a function that waits for PAUSE_MS on a fiber, while another fiber of the same carrier sleeps 10 ms at a time.
 * Fails unless that one got its turn again and again, that is unless the function left the carrier free. A machine that is
 * busy may take most of the turns away.
 */
enum { PAUSE_MS = 300 };
void must_leave_carrier_free(void *(*run)(void *), void *argument);

/* A connected pair of Unix stream sockets. */
typedef struct pair {
    int ends[2];
} pair;

pair new_pair(void);
void close_pair(pair *p);

/* Of this process, the one to count with included. */
int open_descriptors(void);

/* Is the glibc that is loaded of this version or a later one? Only for what differs between releases. */
bool is_glibc_since(int major, int minor);

/* What an emulated kernel may lack. Each asks for that one thing. */
bool has_robust_mutexes(void);
bool has_preadv2(void);                  /* the kernel; libc does a part without it */
bool has_own_system_calls_in_proc(void); /* /proc/self/task/ID/syscall speaks of this program, not of its emulator */

/* A TCP listener on a port of its own; tells its address. */
int listen_on_loopback(struct sockaddr_in *address, int backlog);

#endif
