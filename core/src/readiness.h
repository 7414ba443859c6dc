/*
 * readiness.h: carries out operations on systems that only report readiness (epoll, kqueue).
 *
 * readiness.c has the policy of try, park, retry. A poller has the functions that differ between those systems: they
 * watch descriptors and fetch events.
 */
#ifndef MILLRACE_READINESS_H
#define MILLRACE_READINESS_H

#include "loop.h"

typedef struct mr_readiness_event {
    uint64_t tag; /* the handle that was watched */
    bool readable;
    bool writable; /* also after an error or when the peer has closed: a write would not block */
    bool hang_up;  /* the end of the stream, an error or urgent data has been reported */
    /* no bytes will follow those that are there; set only where a non-blocking call does not say so */
    bool is_shut;
} mr_readiness_event;

typedef enum mr_watch { MR_WATCH_EDGES, MR_WATCH_ONCE } mr_watch;

typedef struct mr_poller {
    /* Watches a descriptor: both directions for every edge, or the given ones for one event. Reports at once what is
     * ready already. Replaces an earlier watch. Returns 0 or a negative errno. */
    int (*watch)(mr_loop *loop, int number, uint64_t tag, mr_watch mode, bool reading, bool writing);
    void (*unwatch)(mr_loop *loop, int number);
    /* Fetches events without blocking, and resets the wake-up of the loop. Returns the number of events. */
    int (*fetch)(mr_loop *loop, mr_readiness_event *events, int capacity);
    /* True if on a TCP socket that is watched for edges a short receive means that the socket is empty. `hang_up` must
     * then report everything that makes a receive stop early. */
    bool short_means_empty;
} mr_poller;

/* The data of a descriptor, at the beginning of its `backend_data`. A backend may add its own after it. */
typedef struct mr_readiness_descriptor {
    bool is_watched : 1;           /* edges of this descriptor arrive at this loop */
    bool is_one_shot : 1;          /* one event is armed, for operations on a foreign descriptor */
    bool is_tcp : 1;               /* see note_transfer */
    bool may_hide_data : 1;        /* the end of the stream or urgent data was reported */
    bool is_shut : 1;              /* for receiving, and no TCP socket: see mr_when_shut */
    uint8_t unused_events;         /* since the last operation began */
    bool exhausted[MR_DIRECTIONS]; /* an attempt would block until the next edge */
} mr_readiness_descriptor;

/* The functions of mr_backend_operations that a readiness backend shares. */
int64_t mr_readiness_attempt(mr_loop *loop, mr_slot *slot);
void mr_readiness_submit(mr_loop *loop, mr_slot *slot, const mr_poller *poller);
void mr_readiness_cancel(mr_loop *loop, mr_slot *slot, const mr_poller *poller);
void mr_readiness_detach(mr_loop *loop, mr_descriptor *descriptor, const mr_poller *poller);
void mr_readiness_poll(mr_loop *loop, const mr_poller *poller);
bool mr_readiness_flush(mr_loop *loop, const mr_poller *poller);
bool mr_readiness_has_work(mr_loop *loop);
void mr_readiness_check(const mr_loop *loop);

/* Blocks until the poller's descriptor has events or `until_ns` has come. */
void mr_readiness_wait(int descriptor, uint64_t until_ns);

#endif
