/*
 * answer.h: the answers of all C peers, and how they count requests. It handles bytes and no sockets.
 *
 * There are two services. `tcp500` answers any read with 500 bytes, whatever was read. `pong` answers each HTTP request
 * with a body of five bytes. All answers of a connection are the same, so a number says what is still to be sent.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum service { SERVICE_TCP500, SERVICE_PONG };

#define ANSWER_COPIES 64 /* One send carries up to this many pipelined answers. */

/* One answer, repeated. */
struct answer {
    size_t size;
    char copies[ANSWER_COPIES * 500];
};

/* The answers of a connection. Zero-initialise it. */
struct dialogue {
    uint64_t owed;   /* bytes of answers not handed to the kernel yet */
    uint8_t matched; /* how much of the blank line that ends a request has been seen */
    bool closing;    /* the client asked for the connection to be closed */
};

/* Reads the command line of a C peer: SERVICE PORT THREADS. Ends the program if it is wrong. */
struct arguments {
    enum service service;
    uint16_t port;
    int threads;
};
struct arguments arguments_parse(int count, char **values);

/* Makes the answers. Call it before any other function and before starting threads. */
void answer_prepare(enum service service);

/* Records bytes that were received. */
void dialogue_received(struct dialogue *dialogue, const char *bytes, size_t length);

/* Returns the next bytes to send, at most one block; 0 if nothing is owed. */
size_t dialogue_unsent(const struct dialogue *dialogue, const char **bytes);

/* Records bytes that were sent. */
void dialogue_sent(struct dialogue *dialogue, size_t length);

/* Opens a listening socket on 127.0.0.1 that shares its port (SO_REUSEPORT), so that each thread has its own. */
int listener_open(uint16_t port, int flags);

/* Runs `serve` on the wanted number of threads, one of which is the caller's. */
void serve_on_threads(struct arguments *arguments, void *(*serve)(void *));

#endif
