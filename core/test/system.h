/*
 * system.h: what the tests need of the operating system: the peers of connections, files, descriptors, sleep.
 *
 * One implementation per system, in system/; test bodies are the same everywhere. If a function fails, the test fails.
 * Threads are POSIX threads everywhere (on Windows, those that come with the compiler).
 */
#ifndef MILLRACE_TEST_SYSTEM_H
#define MILLRACE_TEST_SYSTEM_H

#include "millrace.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#undef near /* windef.h defines these two words for the pointers of 1985 */
#undef far
#else
#include <netinet/in.h>
#endif

/* ------------------------------------------------------------------------------------------------ connections --- */

/* Two connected sockets, both non-blocking and close-on-exec: [0] for the loop, [1] for the test. */
void tcp_pair(int descriptors[2]);
/* Two connected sockets of the fastest kind: Unix sockets, if the system has them. */
void local_pair(int descriptors[2]);
/* A local_pair whose [0] has the given number, which must be free, and whose [1] has a number that no later pair
 * gets. */
void local_pair_at(int number, int descriptors[2]);
/* How many local_pairs this process may open, up to a limit. */
size_t pairs_possible(size_t wanted);

/* A socket for the loop: TCP, not connected, as mr_group_adopt wants it. */
int tcp_socket(void);
/* A listener on 127.0.0.1, any port, as mr_group_adopt wants it. */
int tcp_listener(int backlog, struct sockaddr_in *address);
/* A listener with a full queue, so that further connection attempts get no answer. */
int full_listener(struct sockaddr_in *address);
/* An address of 127.0.0.1 on which nobody listens. */
struct sockaddr_in dead_address(void);

/* A connected socket for the test. */
int connect_to(const struct sockaddr_in *address);
/* Begins to connect a socket and does not wait. 0, or a negative errno: -EINPROGRESS if the attempt goes on. */
int begin_to_connect(int descriptor, const struct sockaddr_in *address);
/* Waits for a connection. */
int accept_one(int listener);
/* Waits until there is something to accept or to read. */
void await_input(int descriptor);
/* Takes all connections that are in the queue. */
void accept_all(int listener);
struct sockaddr_in own_address(int descriptor);

/* What the peer does. These functions wait, unless their names say otherwise. */
void write_all(int descriptor, const void *data, size_t size);
/* The number of bytes, or a negative errno. */
int64_t write_now(int descriptor, const void *data, size_t size);
void write_urgent(int descriptor, char byte);
/* At least a byte; 0 at the end of the stream. */
size_t read_some(int descriptor, void *buffer, size_t size);
int64_t read_now(int descriptor, void *buffer, size_t size);
void end_stream(int descriptor);
void hang_up(int descriptor);
/* Closes a TCP socket so that the peer sees a reset. */
void reset(int descriptor);

/* Fills a socket's send buffer until nothing more fits, even (on TCP) after the peer's kernel has received what it can
 * buffer. Returns the number of bytes. */
size_t fill(int descriptor);
/* Reads and drops what is there. Returns the number of bytes. */
size_t drain(int descriptor);
void limit_send_buffer(int descriptor, int size);

/* ------------------------------------------------------------------------------------------- descriptors, files --- */

bool is_open(int descriptor);
/* True if it is as MR_ACCEPT promises: non-blocking, and not inherited by programs that this one starts. */
bool is_fit_for_a_loop(int descriptor);
/* A number that changes when a descriptor leaks. */
int open_descriptors(void);

/* A file with these contents, for MR_SEND_FILE. */
int file_with(const void *data, size_t size);
/* The position of a file. */
uint64_t file_position(int file);
void close_file(int file);

/* --------------------------------------------------------------------------------------------------------- time --- */

/* The clock that deadlines are measured on. */
uint64_t clock_ns(void);
void sleep_ms(unsigned ms);
void sleep_us(unsigned us);
/* How late the system wakes sleepers at most, on an idle machine. */
unsigned system_slack_ms(void);

/* ------------------------------------------------------------------------------------------------------ process --- */

/* Starts a thread. A simulated machine keeps real time from then on. */
void start_thread(pthread_t *thread, void *(*run)(void *), void *argument);

/* Sets an environment variable of this process; NULL removes it. */
void set_variable(const char *name, const char *value);

/* From now on, writing to a peer that is gone has its worst consequence: a fatal signal. */
void let_broken_pipes_kill(void);

#endif
