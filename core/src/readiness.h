/*
 * readiness.h: completions on systems that only report readiness (epoll, kqueue).
 *
 * The policy of try, park, retry is here once. A poller is what differs between those systems: functions that watch
 * descriptors and fetch events.
 */
#ifndef MILLRACE_READINESS_H
#define MILLRACE_READINESS_H

#include "loop.h"

typedef struct mr_readiness_event {
    uint64_t tag; /* the handle that was watched */
    bool readable;
    bool writable; /* also by an error, or when nobody is there any more: a write would not wait */
    bool hang_up;  /* the end of the stream, an error or urgent data is at hand */
    /* nothing comes any more after what is there; only where a call that would wait does not say so */
    bool is_shut;
} mr_readiness_event;

typedef enum mr_watch { MR_WATCH_EDGES, MR_WATCH_ONCE } mr_watch;

typedef struct mr_poller {
    /* Reports both directions on every edge, or the given ones once. Reports at once what is ready already. Watching
     * a watched descriptor replaces the earlier watch. 0 or a negative errno. */
    int (*watch)(mr_loop *loop, int number, uint64_t tag, mr_watch mode, bool reading, bool writing);
    void (*unwatch)(mr_loop *loop, int number);
    /* Takes events without blocking, and what woke the loop. Returns the number of events. */
    int (*fetch)(mr_loop *loop, mr_readiness_event *events, int capacity);
    /* On a TCP socket that is watched for edges, may a short receive be taken for the last until the next edge? Only
     * if `hang_up` tells of everything that makes a receive stop early. */
    bool short_means_empty;
} mr_poller;

/* What is kept of a descriptor, in the first bytes of its part. A backend may keep more behind it. */
typedef struct mr_readiness_descriptor {
    bool is_watched : 1;           /* edges of this descriptor arrive at this loop */
    bool is_one_shot : 1;          /* one event is armed, for operations on a foreign descriptor */
    bool is_tcp : 1;               /* see note_transfer */
    bool may_hide_data : 1;        /* the end of the stream or urgent data is near */
    bool is_shut : 1;              /* for receiving, and no TCP socket: see mr_when_shut */
    uint8_t unused_events;         /* since the last operation began */
    bool exhausted[MR_DIRECTIONS]; /* nothing to be had until the next edge */
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

/* Blocks until the poller's descriptor has events or the time has come. */
void mr_readiness_wait(int descriptor, uint64_t until_ns);

#endif
