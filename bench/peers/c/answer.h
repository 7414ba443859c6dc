/*
 * answer.h: what every C peer answers, and how requests are counted. It knows bytes, not sockets.
 *
 * Two services: `tcp500` answers 500 bytes to any read, whatever it contains; `pong` answers each HTTP request
 * with a five-byte body. All answers of a connection are alike, so what is still to be sent is one number.
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

/* The part of a connection that concerns answers. Zero-initialise it. */
struct dialogue {
    uint64_t owed;   /* bytes of answers not handed to the kernel yet */
    uint8_t matched; /* how much of the blank line that ends a request has been seen */
    bool closing;    /* the client asked for the connection to be closed */
};

/* Command line of every C peer: SERVICE PORT THREADS. Ends the program if it makes no sense. */
struct arguments {
    enum service service;
    uint16_t port;
    int threads;
};
struct arguments arguments_parse(int count, char **values);

/* Builds the answers; before any other call, and before there are threads. */
void answer_prepare(enum service service);

/* Takes note of bytes received. */
void dialogue_received(struct dialogue *dialogue, const char *bytes, size_t length);

/* The next bytes to send, at most one block; 0 if nothing is owed. */
size_t dialogue_unsent(const struct dialogue *dialogue, const char **bytes);

/* Takes note of bytes sent. */
void dialogue_sent(struct dialogue *dialogue, size_t length);

/* A listening socket on 127.0.0.1 that shares its port (SO_REUSEPORT), so that each thread has one of its own. */
int listener_open(uint16_t port, int flags);

/* Runs `serve` on as many threads as were asked for, of which the caller's is one. */
void serve_on_threads(struct arguments *arguments, void *(*serve)(void *));

#endif
