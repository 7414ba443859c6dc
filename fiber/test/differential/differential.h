/*
 * differential.h: one call, performed on an OS thread and on a fiber in two equal worlds, must have equal outcomes.
 *
 * A *world* is a descriptor of some kind, in a blocking mode, in a situation (nothing to read, full, peer gone, ...). A
 * *call* uses the world and records an *outcome*. kinds.c has the kinds; *_calls.c and locks.c have the calls; main.c
 * compares the outcomes.
 */
#ifndef MILLRACE_FIBER_DIFFERENTIAL_H
#define MILLRACE_FIBER_DIFFERENTIAL_H

#include "../fiber_test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

typedef enum mode { MODE_BLOCKING, MODE_NONBLOCKING, MODE_TIMEOUT, MODES } mode;

typedef enum situation {
    SITUATION_IDLE,  /* nothing to read, free space to write; in blocking mode, help comes later */
    SITUATION_READY, /* something to read */
    SITUATION_FULL,  /* no free space to write; in blocking mode, somebody reads later */
    SITUATION_GONE,  /* the peer has closed */
    SITUATIONS
} situation;

typedef struct world {
    int descriptor;
    int peer; /* the other end, or -1 */
    mode mode;
    atomic_bool call_is_over;
    struct sockaddr_storage peer_address; /* of sockets */
    socklen_t peer_address_size;
} world;

/* A kind of descriptor. Functions that are NULL do not apply: the situation does not exist for this kind. */
typedef struct kind {
    const char *name;
    bool is_socket;
    void (*open)(world *w); /* idle */
    void (*make_ready)(world *w);
    void (*make_full)(world *w);
    void (*make_gone)(world *w);
    void (*help_reader)(world *w); /* called by another thread: makes the descriptor readable */
    void (*help_writer)(
        world *w); /* called by another thread: reads everything, so that the descriptor becomes writable */
} kind;

extern const kind kinds[];
extern const size_t kind_count;

#define DATA_BYTES 96

/* What a program can see of a call. */
typedef struct outcome {
    long result;
    int error; /* errno, which was 0 before */
    bool waited;
    long detail[4]; /* what the call wants to compare */
    char data[DATA_BYTES];
    int signals;         /* SIGPIPE */
    int flags;           /* F_GETFL afterwards */
    long readable_bytes; /* FIONREAD afterwards */
    long position;       /* lseek afterwards */
} outcome;

/* What a call may wait for, so that help comes for the right side. */
typedef enum need { NEED_NOTHING, NEED_READABLE, NEED_WRITABLE } need;

typedef struct call {
    const char *name;
    need need;
    bool sockets_only;
    bool uses_disk; /* how long it takes is not compared */
    void (*perform)(world *w, outcome *o);
} call;

typedef struct call_table {
    const call *calls;
    size_t count;
} call_table;

extern const call_table input_calls;
extern const call_table stream_input_calls;
extern const call_table output_calls;
extern const call_table stream_output_calls;
extern const call_table connection_calls;
extern const call_table waiting_calls;
extern const call_table descriptor_calls;

/* locks.c: the calls that use no descriptor, and the kind of their worlds. */
extern const kind no_descriptor;
extern const call_table calls_without_descriptor;

#endif
