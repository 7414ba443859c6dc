/*
 * system.h: what the tests need of the system below them: the far ends of connections, files, descriptors, sleep.
 *
 * One implementation per system, in system/; test bodies are the same everywhere. A function
 * that fails ends the test. Threads are POSIX threads everywhere (on Windows, those that come with the compiler).
 */
#ifndef MILLRACE_TEST_SYSTEM_H
#define MILLRACE_TEST_SYSTEM_H

#include "millrace.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#undef near /* windef.h has these two for the pointers of 1985 */
#undef far
#else
#include <netinet/in.h>
#endif

/* ------------------------------------------------------------------------------------------------ connections --- */

/* Two connected sockets, both non-blocking and close-on-exec: [0] for the loop, [1] for the test. */
void tcp_pair(int descriptors[2]);
/* The same by the quickest means: Unix sockets, where the system has them. */
void local_pair(int descriptors[2]);
/* A local_pair of which [0] has the given number, which must be free, and [1] one that no later pair gets. */
void local_pair_at(int number, int descriptors[2]);
/* How many local_pairs this process may open, up to a limit. */
size_t pairs_possible(size_t wanted);

/* A socket for the loop: TCP, not connected, as mr_group_adopt wants it. */
int tcp_socket(void);
/* A listener on 127.0.0.1, any port, as mr_group_adopt wants it. */
int tcp_listener(int backlog, struct sockaddr_in *address);
/* A listener to whom a further connection attempt is made in vain: its queue is full. */
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

/* The other side's part. They wait, unless their names say otherwise. */
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

/* Fills a socket's send buffer until nothing more fits, now and (on TCP) when the peer's kernel has taken what it
 * takes without a reader. Returns the number of bytes. */
size_t fill(int descriptor);
/* Reads and drops what is there. Returns the number of bytes. */
size_t drain(int descriptor);
void limit_send_buffer(int descriptor, int size);

/* ------------------------------------------------------------------------------------------- descriptors, files --- */

bool is_open(int descriptor);
/* Is it as MR_ACCEPT promises: non-blocking, and not inherited by programs that this one starts? */
bool is_fit_for_a_loop(int descriptor);
/* A number that changes when a descriptor is left behind. */
int open_descriptors(void);

/* A file with these contents, for MR_SEND_FILE. */
int file_with(const void *data, size_t size);
/* How far reading and writing have come in a file. */
uint64_t file_position(int file);
void close_file(int file);

/* --------------------------------------------------------------------------------------------------------- time --- */

/* The clock that deadlines are measured on. */
uint64_t clock_ns(void);
void sleep_ms(unsigned ms);
void sleep_us(unsigned us);
/* How late the system itself wakes sleepers at most, while nothing else goes on. */
unsigned system_slack_ms(void);

/* ------------------------------------------------------------------------------------------------------ process --- */

/* Starts a thread. A simulated machine keeps real time from then on. */
void start_thread(pthread_t *thread, void *(*run)(void *), void *argument);

/* Sets an environment variable of this process; NULL removes it. */
void set_variable(const char *name, const char *value);

/* Writing to a peer that is gone shall have its worst consequence from here on. */
void let_broken_pipes_kill(void);

#endif
