/*
 * http_limit.h - what a client of HTTP/2 or HTTP/3 may do that makes work and brings nothing, and the limit for which
 * its connection ends. Must not know: GHC, sockets, the clock.
 *
 * A connection has two allowances, each a bucket that fills again with time: one for frames without use, and one for
 * requests that are cancelled or refused. When a client goes beyond one, its connection ends gently at first: GOAWAY
 * tells the client, what was begun is finished, and nothing new is taken. A client that goes on until the bucket is
 * overdrawn by as much again is disconnected at once.
 */
#ifndef HTTP_LIMIT_H
#define HTTP_LIMIT_H

#include <stdint.h>

/* The limits for which a connection ends. */
typedef enum http_limit {
    HTTP_LIMIT_NONE = 0,
    HTTP_LIMIT_FRAMES = 1, /* frames_max */
    HTTP_LIMIT_RESETS = 2, /* resets_max */
    HTTP_LIMIT_HEADS = 3,  /* a head, or trailers, far beyond fields_max or head_max, or in too many frames */
    HTTP_LIMIT_MEMORY =
        4 /* memory of the libraries of HTTP/3, for what came in the wrong order or is not acknowledged */
} http_limit;

/* The text that a client gets with the error code. */
static inline const char *http_limit_text(http_limit limit)
{
    switch (limit) {
    case HTTP_LIMIT_FRAMES:
        return "too many frames without use";
    case HTTP_LIMIT_RESETS:
        return "too many cancelled requests";
    case HTTP_LIMIT_HEADS:
        return "too many fields in a head";
    case HTTP_LIMIT_MEMORY:
        return "too much memory for one connection";
    default:
        return "";
    }
}

/* The sizes of the allowances: a burst, and how fast they are refilled. */
typedef struct http_allowances {
    uint32_t frames_max, frames_per_second; /* frames without use, such as PING or empty DATA */
    uint32_t resets_max, resets_per_second; /* requests whose handlers work for nobody, and refused ones */
} http_allowances;

/* A token bucket, which limits a rate. `filled_at` in nanoseconds. */
typedef struct http_bucket {
    double tokens;
    uint64_t filled_at;
} http_bucket;

/* Takes so much. Returns whether the rate is exceeded. */
static inline int http_bucket_take(http_bucket *bucket, double cost, uint64_t now, uint32_t most, uint32_t per_second)
{
    if (now > bucket->filled_at) {
        bucket->tokens += (double)(now - bucket->filled_at) * per_second / 1e9;
        bucket->filled_at = now;
    }
    if (bucket->tokens > most)
        bucket->tokens = most;
    bucket->tokens -= cost;
    return bucket->tokens < 0;
}

/* What a connection's client has done. */
typedef struct http_conduct {
    http_bucket frames, resets;
    http_limit limit; /* beyond which it has gone */
    uint8_t is_told;  /* http_conduct_tell has returned the limit */
} http_conduct;

/* Whether a connection goes on. http_conduct.limit may say that it must end gently. */
typedef enum http_verdict { HTTP_GO_ON, HTTP_END_AT_ONCE } http_verdict;

/* A request that the client has cancelled before there was an answer. */
typedef struct http_cancellation {
    uint64_t at;
    uint8_t is_one; /* 0: the request was not cancelled, or it was not served yet */
} http_cancellation;

/* What a request adds to the allowance for frames without use, unless the client cancels it before there is an
   answer. */
#define HTTP_REQUEST_FRAMES 2

/* A handler that ends so soon after its request was cancelled has wasted little, in nanoseconds. */
#define HTTP_SOON UINT64_C(100000000)

static inline void http_conduct_begin(http_conduct *conduct, const http_allowances *allowances, uint64_t now)
{
    *conduct = (http_conduct){.frames = {allowances->frames_max, now}, .resets = {allowances->resets_max, now}};
}

static inline http_verdict http_conduct_judge(http_conduct *conduct, http_limit limit, const http_bucket *bucket,
                                              uint32_t most)
{
    if (conduct->limit != HTTP_LIMIT_NONE)
        return bucket->tokens < -(double)most ? HTTP_END_AT_ONCE : HTTP_GO_ON;
    conduct->limit = limit;
    return HTTP_GO_ON;
}

/* Counts frames without use. What makes less work than a frame costs a part of one. */
static inline http_verdict http_conduct_useless(http_conduct *conduct, const http_allowances *allowances, double frames,
                                                uint64_t now)
{
    if (!http_bucket_take(&conduct->frames, frames, now, allowances->frames_max, allowances->frames_per_second))
        return HTTP_GO_ON;
    return http_conduct_judge(conduct, HTTP_LIMIT_FRAMES, &conduct->frames, allowances->frames_max);
}

/* The client has done something of use. */
static inline void http_conduct_earn(http_conduct *conduct, double frames)
{
    conduct->frames.tokens += frames;
}

/* Counts a request that is refused. */
static inline http_verdict http_conduct_reset(http_conduct *conduct, const http_allowances *allowances, uint64_t now)
{
    if (!http_bucket_take(&conduct->resets, 1, now, allowances->resets_max, allowances->resets_per_second))
        return HTTP_GO_ON;
    return http_conduct_judge(conduct, HTTP_LIMIT_RESETS, &conduct->resets, allowances->resets_max);
}

/* The client has gone so far beyond a limit that the connection cannot go on. */
static inline void http_conduct_exceed(http_conduct *conduct, http_limit limit)
{
    if (conduct->limit == HTTP_LIMIT_NONE)
        conduct->limit = limit;
}

/* The client cancels a request that has no answer yet, and with it what the request has earned. While its handler runs
 * it counts as a reset: see http_conduct_forgive. To be called once for a request. */
static inline http_verdict http_conduct_cancel(http_conduct *conduct, const http_allowances *allowances,
                                               http_cancellation *cancellation, int is_served, uint64_t now)
{
    http_conduct_earn(conduct, -HTTP_REQUEST_FRAMES);
    if (!is_served)
        return HTTP_GO_ON;
    *cancellation = (http_cancellation){.at = now, .is_one = 1};
    return http_conduct_reset(conduct, allowances, now);
}

/* The handler of a request has ended. If it was cancelled just before, that has cost nothing. */
static inline void http_conduct_forgive(http_conduct *conduct, const http_cancellation *cancellation, uint64_t now)
{
    if (!cancellation->is_one || (now > cancellation->at && now - cancellation->at > HTTP_SOON))
        return;
    http_conduct_earn(conduct, HTTP_REQUEST_FRAMES);
    conduct->resets.tokens += 1;
}

/* The limit for which the connection ends, the first time. */
static inline http_limit http_conduct_tell(http_conduct *conduct)
{
    http_limit limit = conduct->is_told ? HTTP_LIMIT_NONE : conduct->limit;
    conduct->is_told = conduct->is_told || limit != HTTP_LIMIT_NONE;
    return limit;
}

#endif
