/*
 * conform.h: what the conformance tests share: a table of cases per file, and a driver that plays the owner of a loop.
 *
 * The cases know millrace.h and nothing else of the core. Every case runs on every backend.
 */
#ifndef MILLRACE_CONFORM_H
#define MILLRACE_CONFORM_H

#include "../harness.h"
#include "millrace.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------------- tables --- */

typedef struct conform_case {
    const char *name;
    void (*run)(void);
} conform_case;

#define CASE(function) {#function, function}

/* The files of this directory: X(file) stands for a table file_cases[] that ends with a case without a name. */
#define CONFORM_FILES(X)                                                                                               \
    X(accept)                                                                                                          \
    X(cancel)                                                                                                          \
    X(close)                                                                                                           \
    X(connect)                                                                                                         \
    X(deadline)                                                                                                        \
    X(fork)                                                                                                            \
    X(lent)                                                                                                            \
    X(pressure)                                                                                                        \
    X(recv)                                                                                                            \
    X(refusal)                                                                                                         \
    X(request)                                                                                                         \
    X(send)                                                                                                            \
    X(send_file)                                                                                                       \
    X(shutdown)                                                                                                        \
    X(threads)                                                                                                         \
    X(timeout)                                                                                                         \
    X(token)                                                                                                           \
    X(vector)                                                                                                          \
    X(wait)                                                                                                            \
    X(wake)

#define CONFORM_DECLARE(file) extern const conform_case file##_cases[];
CONFORM_FILES(CONFORM_DECLARE)
#undef CONFORM_DECLARE

/* The backend that the running case is about. */
extern mr_backend conform_backend;

/* ----------------------------------------------------------------------------------------------------- driver --- */

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

/*
 * Plays the owner of one loop, and keeps its accounts: a completion that nobody waits for (a second one for the same
 * operation, one with a stale token, one with other user data) fails the test at once.
 */
typedef struct driver driver;

/* A loop in a group of its own, which ends with it. */
driver *driver_new(void);
/* Another loop in the group of `first`, to be freed before it. */
driver *driver_new_beside(driver *first);
/* Fails the test unless every operation has ended and every completion was taken. */
void driver_free(driver *d);

mr_loop *driver_loop(driver *d);
mr_group *driver_group(driver *d);

mr_handle adopt(driver *d, int descriptor);

/* Submits. True: pending, *completion has the token. False: done, *completion is complete. */
bool submit(driver *d, mr_request request, mr_completion *completion);

/* Submits an operation that cannot be done at once; fails the test if it is. */
mr_token start(driver *d, mr_request request);

/* For tokens that did not come from submit or start: a completion of this token is to be expected. */
void expect(driver *d, mr_token token, uint64_t user_data);
/* The opposite, after a successful mr_loop_discard; releases the token. */
void expect_nothing(driver *d, mr_token token);

/* Polls once and keeps what has come. Returns the number of completions. */
int poll_once(driver *d);

/* Has this operation's completion been polled (and not been taken)? Does not poll. */
bool has_arrived(driver *d, mr_token token);

/* Polls and waits like an owner until the completion has come, takes it and releases the token. */
#define finish(d, token) (NOTE_PLACE(), driver_finish(d, token))
mr_completion driver_finish(driver *d, mr_token token);

/* The same without releasing the token. */
#define take(d, token) (NOTE_PLACE(), driver_take(d, token))
mr_completion driver_take(driver *d, mr_token token);

/* Submits, and finishes if it is pending. */
#define perform(d, request) (NOTE_PLACE(), driver_perform(d, request))
mr_completion driver_perform(driver *d, mr_request request);

/* Drives the loop for this long: polls and waits as an owner does. Completions are kept. Returns the number of
 * polls, which is small if the loop could sleep. */
unsigned run_for_ms(driver *d, unsigned duration_ms);

/* Drives the loop for 20 ms and fails the test if the operation has ended. */
#define CHECK_STAYS_PENDING(d, token)                                                                                  \
    do {                                                                                                               \
        run_for_ms(d, 20);                                                                                             \
        CHECK(!has_arrived(d, token));                                                                                 \
    } while (0)

mr_counters counters_of(driver *d);

/* --------------------------------------------------------------------------------------------------- requests --- */

mr_request recv_request(mr_handle handle, void *buffer, size_t size);
mr_request lent_request(mr_handle handle, size_t size);
mr_request send_request(mr_handle handle, const void *buffer, size_t size);
mr_request send_all_request(mr_handle handle, const void *buffer, size_t size);
mr_request vector_request(mr_kind kind, mr_handle handle, struct iovec *elements, size_t count);
mr_request accept_request(mr_handle listener, mr_address *address);
mr_request connect_request(mr_handle handle, const void *address, socklen_t length);
mr_request wait_request(mr_kind kind, mr_handle handle);
mr_request shutdown_request(mr_handle handle, int how);
mr_request close_request(mr_handle handle);
mr_request timeout_request(uint64_t deadline_ns);
mr_request with_deadline(mr_request request, uint64_t deadline_ns);
mr_request with_flags(mr_request request, uint32_t flags);

static inline uint64_t in_ms(uint64_t ms)
{
    return mr_clock_now_ns() + ms * NS_PER_MS;
}

/* ---------------------------------------------------------------------------------------------------- sockets --- */

/* Two connected sockets, both non-blocking and close-on-exec: [0] for the loop, [1] for the test. */
void unix_pair(int descriptors[2]);
void tcp_pair(int descriptors[2]);

/* A TCP listener on 127.0.0.1, any port. */
int tcp_listener(int backlog, struct sockaddr_in *address);
int tcp_socket(void);
/* An address of 127.0.0.1 on which nobody listens. */
struct sockaddr_in dead_address(void);

void set_blocking(int descriptor);
/* Closes a TCP socket so that the peer sees a reset. */
void reset(int descriptor);
/* Writes all of it; the descriptor must be blocking or have room. */
void write_all(int descriptor, const void *data, size_t size);
/* Fills a socket's send buffer until nothing more fits, now and (on TCP) when the peer's kernel has taken what it
 * takes without a reader. Returns the number of bytes. */
size_t fill(int descriptor);
/* Reads and drops what is there. Returns the number of bytes. */
size_t drain(int descriptor);

bool is_open(int descriptor);
int open_descriptors(void);
void sleep_ms(unsigned ms);

/* The byte at a position of the stream that byte-exact tests send. */
static inline unsigned char pattern_at(uint64_t position)
{
    return (unsigned char)((position * 2654435761u) >> 13 ^ position);
}
void fill_pattern(void *buffer, uint64_t position, size_t size);
/* Fails the test unless the buffer holds the stream's bytes from `position`. */
void check_pattern(const void *buffer, uint64_t position, size_t size);

#endif
