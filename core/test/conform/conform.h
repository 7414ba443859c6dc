/*
 * conform.h: what the conformance tests share: a table of cases per file, and a driver that acts as the owner of a
 * loop.
 *
 * The cases use only millrace.h. Every case runs on every backend.
 */
#ifndef MILLRACE_CONFORM_H
#define MILLRACE_CONFORM_H

#include "../harness.h"
#include "../system.h"
#include "millrace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------- tables --- */

typedef struct conform_case {
    const char *name;
    void (*run)(void);
} conform_case;

#define CASE(function)      \
    {                       \
#function, function \
    }

/* The files of this directory: X(file) stands for a table file_cases[] that ends with a case without a name. The cases
 * of the first list are for every system, those of the others for certain systems. */
#define CONFORM_FILES_EVERYWHERE(X) \
    X(accept)                       \
    X(cancel)                       \
    X(close)                        \
    X(connect)                      \
    X(deadline)                     \
    X(file)                         \
    X(listing)                      \
    X(send_then_receive)            \
    X(borrow)                       \
    X(pressure)                     \
    X(recv)                         \
    X(request)                      \
    X(send)                         \
    X(send_file)                    \
    X(shutdown)                     \
    X(threads)                      \
    X(timeout)                      \
    X(token)                        \
    X(vector)                       \
    X(wait)                         \
    X(wake)

#define CONFORM_FILES_POSIX(X) \
    X(datagram)                \
    X(descriptor)              \
    X(exhaustion)              \
    X(fork)                    \
    X(shared_listener)         \
    X(unix_socket)

#define CONFORM_FILES_LINUX(X) \
    X(cold_file)               \
    X(error_queue)             \
    X(refusal)

#ifdef __linux__
#define CONFORM_FILES(X) CONFORM_FILES_EVERYWHERE(X) CONFORM_FILES_POSIX(X) CONFORM_FILES_LINUX(X)
#elif defined(_WIN32)
#define CONFORM_FILES(X) CONFORM_FILES_EVERYWHERE(X)
#else
#define CONFORM_FILES(X) CONFORM_FILES_EVERYWHERE(X) CONFORM_FILES_POSIX(X)
#endif

#define CONFORM_DECLARE(file) extern const conform_case file##_cases[];
CONFORM_FILES(CONFORM_DECLARE)
#undef CONFORM_DECLARE

/* The backend that the running case tests. */
extern mr_backend conform_backend;
extern bool conform_fixes_owners;

/* ----------------------------------------------------------------------------------------------------- driver --- */

#define NS_PER_MS     UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

/*
 * Acts as the owner of one loop, and records which completions it expects. An unexpected completion (a second one of
 * the same operation, one with a stale token, one with other user data) fails the test at once.
 */
typedef struct driver driver;

/* A loop in a new group, which ends with the loop. */
driver *driver_new(void);
/* Another loop in the group of `first`, to be freed before it. */
driver *driver_new_beside(driver *first);
/* Fails the test unless every operation has ended and every completion was taken. */
void driver_free(driver *d);

mr_loop *driver_loop(driver *d);
mr_group *driver_group(driver *d);

mr_handle adopt(driver *d, int descriptor);

/* A borrowed buffer of its loop. */
mr_buffer *borrow_from(driver *d);

/* Submits. True: pending, *completion has the token. False: done, *completion is complete. */
bool submit(driver *d, mr_request request, mr_completion *completion);

/* Submits an operation that cannot be done at once; fails the test if it is. */
mr_token start(driver *d, mr_request request);

/* Expects a completion of a token that did not come from submit or start. */
void expect(driver *d, mr_token token, uint64_t user_data);
/* Expects no completion any more, after a successful mr_loop_discard. Releases the token. */
void expect_nothing(driver *d, mr_token token);

/* Polls once and keeps the completions. Returns their number. */
int poll_once(driver *d);

/* True if this operation's completion was polled and not taken. Does not poll. */
bool has_arrived(driver *d, mr_token token);

/* Polls and waits like an owner until the completion has come, takes it and releases the token. */
#define finish(d, token) (NOTE_LINE(), driver_finish(d, token))
mr_completion driver_finish(driver *d, mr_token token);
/* As above for operations that wait to send, while the peer reads everything. TCP may send the contents of a full
 * socket slowly. A peer that read only what has arrived would then free too little space. */
#define finish_while_read(d, token, peer) (NOTE_LINE(), driver_finish_while_read(d, token, peer))
mr_completion driver_finish_while_read(driver *d, mr_token token, int peer);

/* As finish, without releasing the token. */
#define take(d, token) (NOTE_LINE(), driver_take(d, token))
mr_completion driver_take(driver *d, mr_token token);

/* Submits an operation, and finishes it if it is pending. */
#define perform(d, request) (NOTE_LINE(), driver_perform(d, request))
mr_completion driver_perform(driver *d, mr_request request);

/* Drives the loop for this long: polls and waits as an owner does. Completions are kept. Returns the number of
 * polls, which is small if the loop could sleep. */
unsigned run_for_ms(driver *d, unsigned duration_ms);

/* Drives the loop for 20 ms and fails the test if the operation has ended. */
#define CHECK_STAYS_PENDING(d, token)  \
    do {                               \
        run_for_ms(d, 20);             \
        CHECK(!has_arrived(d, token)); \
    } while (0)

mr_counters counters_of(driver *d);

/* --------------------------------------------------------------------------------------------------- requests --- */

mr_request recv_request(mr_handle handle, void *buffer, size_t size);
mr_request borrowing_request(mr_handle handle, size_t size);
mr_request send_then_receive_request(mr_handle handle, mr_buffer *buffer, size_t offset, size_t size);
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
    return clock_ns() + ms * NS_PER_MS;
}

/* ------------------------------------------------------------------------------------------------- connections --- */

/* A new loop with one end of a connection. The test has the other end. */
typedef struct connection {
    driver *d;
    int number;
    mr_handle handle;
    int peer;
} connection;

connection local_connection(void);
connection tcp_connection(void);

/* Sockets on which every kind of operation has to wait. */
typedef struct stuck {
    driver *d;
    int pair[2];
    mr_handle handle;   /* nothing to receive, and full for sending */
    mr_handle listener; /* nobody connects */
    char byte;
    struct iovec element;
} stuck;

enum { STUCK_SOCKET_KINDS = 8, STUCK_KINDS = 9 /* and MR_TIMEOUT */ };

void make_stuck(stuck *s);
/* A request of the given kind. */
mr_request stuck_request(stuck *s, int kind);

/* Checks that the completion has a borrowed buffer with exactly these bytes. Returns the buffer. */
void check_borrowed(driver *d, mr_completion completion, const char *expected);
/* Checks that the completion has this result and no borrowed buffer. */
void check_nothing_borrowed(mr_completion completion, int64_t result);

/* Kernel threads that work for the process count too. 1 on systems that do not say. */
int threads_of_process(void);

/* Sends until a send fails: TCP learns only from the answer to the first bytes that the peer is gone. */
int64_t first_refusal(driver *d, mr_request request);
/* True if this is the result of sending to a peer that is gone. */
void check_broken(int64_t result);

/* Reads from a connection in pieces, with pauses, and checks the pattern, until the end of the stream. */
typedef struct slow_reader slow_reader;

slow_reader *slow_reader_start(int descriptor);
/* Waits for the end of the stream. Returns how many bytes came before it. */
uint64_t slow_reader_finish(slow_reader *reader);

/* The byte at a position of the stream that byte-exact tests send. */
static inline unsigned char pattern_at(uint64_t position)
{
    return (unsigned char)((position * 2654435761u) >> 13 ^ position);
}
void fill_pattern(void *buffer, uint64_t position, size_t size);
/* Fails the test unless the buffer holds the stream's bytes from `position`. */
void check_pattern(const void *buffer, uint64_t position, size_t size);

#endif
