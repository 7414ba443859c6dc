/*
 * millrace.h: the completion core of Millrace.
 *
 * What it is for: a program hands *operations* (accept, recv, send, a timeout, ...) to a *loop* and takes back
 * *completions*. A *backend* is how one operating system does it; nothing in this header depends on which.
 * It is the same for every language and kind of thread above it: there are no callbacks. Must not know: GHC.
 *
 * The four rules that settle every question of lifetime
 *
 *  1. An operation that was accepted (MR_PENDING) ends in exactly one completion. Cancelling it, closing its
 *     descriptor or passing its deadline hastens that completion; it never replaces it.
 *  2. The buffer, address or vector of an operation belongs to the loop until its completion has been polled.
 *     The loop does not touch it afterwards.
 *  3. A token stays valid until it is released (mr_loop_release); until then its slot is not used again. A stale
 *     token is recognised by its generation and ignored.
 *  4. A descriptor number is not handed back to the system while operations on it are in flight: mr_loop_submit of
 *     MR_CLOSE first ends them all with -EBADF, on every loop of the group.
 *
 * Who may call what
 *
 *  Functions marked [owner] touch the state of a loop without a lock. The caller guarantees that no two of them run
 *  at the same time on one loop (by one thread per loop, or by a lock that exists anyway).
 *  Functions marked [any thread] may run at any time on any thread.
 *  mr_loop_wait is the only function that blocks. It changes no state of the loop, and [owner] functions other than
 *  mr_loop_poll and mr_loop_prepare_wait may run on other threads while it blocks.
 *
 * Errors are negative errno values, never errno itself.
 */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#include <winsock2.h>
#include <ws2tcpip.h>
/* What Windows calls otherwise. Descriptors are sockets: handles, of which 32 bits matter. */
struct iovec {
    void *iov_base;
    size_t iov_len;
};
enum { SHUT_RD = SD_RECEIVE, SHUT_WR = SD_SEND, SHUT_RDWR = SD_BOTH };
#else
#include <sys/socket.h>
#include <sys/uio.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MR_VERSION "0.1.0"

/* ------------------------------------------------------------------------------------------------ backends --- */

typedef enum mr_backend {
    MR_BACKEND_AUTO = 0,     /* MILLRACE_BACKEND if set, else the first that works here, in the order below. */
    MR_BACKEND_IO_URING = 1, /* Linux 5.19 and later, where it is allowed. */
    MR_BACKEND_EPOLL = 2,    /* Linux. */
    MR_BACKEND_KQUEUE = 3,   /* FreeBSD, NetBSD 10, macOS. */
    MR_BACKEND_IOCP = 4,     /* Windows 8 and later. */
    MR_BACKEND_SIM = 5,      /* A simulated machine; never chosen, but made: see millrace_machine.h. */
    MR_BACKEND_COUNT = 6
} mr_backend;

/* The name that MILLRACE_BACKEND and the command line use: "auto", "io_uring", "epoll", "kqueue", "iocp", "sim". */
const char *mr_backend_name(mr_backend backend);

/* The backend of that name; -EINVAL if there is none. */
int mr_backend_parse(const char *name, mr_backend *backend);

/*
 * Can this backend run here? 0, or a negative errno (-ENOTSUP: it belongs to another operating system); `reason` (of
 * `reason_size` bytes, may be NULL) then says why in one sentence. Probing io_uring calls io_uring_setup; a program under a seccomp profile that kills for that must
 * not probe it (mr_backend_choose does not, when another backend is asked for by name). [any thread]
 */
int mr_backend_probe(mr_backend backend, char *reason, size_t reason_size);

/*
 * Decides which backend to use. A backend asked for by name (the argument, or else MILLRACE_BACKEND) is used or
 * refused: the result is then the error of its probe. Otherwise each is tried in turn and any failure falls back to
 * the next in silence. -EINVAL: MILLRACE_BACKEND names no backend. [any thread]
 */
int mr_backend_choose(mr_backend requested, mr_backend *chosen);

#ifdef _WIN32
/* What WSAGetLastError (or GetLastError) says of a call that a program makes itself, as the negative errno that an
 * operation would end with; -EIO for what has no better name. */
int mr_error_of_winsock(int error);
#endif

/* --------------------------------------------------------------------------------------------------- clock --- */

/* Nanoseconds of the monotonic clock that all deadlines are measured on. Starts at an arbitrary point, never 0.
 * Loops of a simulated machine go by the machine's clock instead (mr_group_now_ns). */
uint64_t mr_clock_now_ns(void);

/* -------------------------------------------------------------------------------------- groups and handles --- */

/* Loops that share descriptors: an operation may be submitted to any loop of the group that knows its handle. */
typedef struct mr_group mr_group;

/* A descriptor and a generation: a handle outlives its descriptor without ever meaning a later one. */
typedef uint64_t mr_handle;

#define MR_LOOPS_MAX 1024 /* Loops that a group ever has: an index is not used again. */

/* Creates a group whose loops all use one backend (see mr_backend_choose). -ENOMEM, or the choice's error. */
int mr_group_create(mr_backend requested, mr_group **group);

/* Frees a group. Every loop of it must have been destroyed. Descriptors that are still open stay open. */
void mr_group_destroy(mr_group *group);

mr_backend mr_group_backend(const mr_group *group);

/* The next loop of the group gets this index (below MR_LOOPS_MAX), the one after it the next: so that the tokens of two
 * groups can be told apart. */
void mr_group_number_from(mr_group *group, uint32_t first);

/* The time that deadlines of the group's operations are measured on. [any thread] */
uint64_t mr_group_now_ns(const mr_group *group);

/*
 * Takes over an open descriptor. From here on only MR_CLOSE may close it. It must be a socket in
 * non-blocking mode, or a regular file. [any thread] Returns 0 and the handle, -EBADF for a negative number, or -ENOMEM.
 */
int mr_group_adopt(mr_group *group, int descriptor, mr_handle *handle);

/* Does the handle still mean an open descriptor? A moment later it may not. [any thread] */
int mr_group_is_open(mr_group *group, mr_handle handle);

/*
 * Keeps the descriptor from being closed until mr_group_let_go, for calls with its number that this core has no operation
 * for. 0, or -EBADF if the handle is closed or being closed. An MR_CLOSE waits for whoever holds: let go soon. [any thread]
 */
int mr_group_hold(mr_group *group, mr_handle handle);
void mr_group_let_go(mr_group *group, mr_handle handle);

/*
 * A handle for a descriptor that somebody else owns. Only MR_WAIT_READABLE and MR_WAIT_WRITABLE accept it, and
 * closing the descriptor meanwhile is the caller's mistake (the wait may then never end; it can still be cancelled).
 * If the number is that of an adopted descriptor when the wait begins, the wait is one on its handle, and MR_CLOSE ends it.
 */
mr_handle mr_handle_foreign(int descriptor);

/* The descriptor number inside a handle. */
int mr_handle_descriptor(mr_handle handle);

/*
 * For the child after fork(), before anything else is called there: frees every loop of the group together with this
 * process's copies of what they hold in the kernel, without disturbing the parent. Handles stay valid, and new loops
 * may be created. Operations that were in flight belong to the parent and are gone here.
 */
void mr_group_reset_after_fork(mr_group *group);

/* ---------------------------------------------------------------------------------------------- operations --- */

/*
 *  operation (operation.def)  buffer                            length              result on success
 *  ACCEPT                     mr_address, or NULL               -                   the new descriptor
 *  CONNECT                    struct sockaddr                   its length          0
 *  RECV                       where the bytes go                bytes               bytes received, 0 at end of stream
 *  SEND                       the bytes                         bytes               bytes sent
 *  RECV_VECTOR, SEND_VECTOR   struct iovec[]                    number of elements  as RECV and SEND
 *  WAIT_READABLE, _WRITABLE   -                                 -                   0
 *  SHUTDOWN                   -                                 SHUT_RD, _WR, _RDWR 0
 *  CLOSE                      -                                 -                   0
 *  SEND_FILE                  - (`file` and `offset` instead)   bytes               bytes sent, 0 at its end
 *  READ_FILE                  where the bytes go (`offset`)     bytes               bytes read, 0 at the file's end
 *  WRITE_FILE                 the bytes (`offset`)              bytes               bytes written
 *  SYNC_FILE                  -                                 -                   0
 *  SEND_THEN_RECEIVE          mr_buffer with bytes at `offset`  bytes to send       as RECV with MR_BORROW
 *  TIMEOUT                    -                                 -                   0, when deadline_ns has passed
 *
 *  ACCEPT    makes the descriptor non-blocking and close-on-exec; it is not adopted yet. A connection that was reset
 *            while queued is skipped. Without descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM) it waits and
 *            tries again after 10 ms, doubling up to 200 ms, for as long as its deadline allows.
 *  SEND      never raises SIGPIPE. With MR_ALL it completes when everything was sent, or with the error that
 *            prevented it; `transferred` then tells how many bytes had gone.
 *  SEND_VECTOR with MR_ALL modifies the vector.
 *  A RECV that is cancelled or runs out of time after bytes were received completes with those bytes: none is lost.
 *  SEND_FILE sends at most 1 MiB of a regular file. Reading pages that are not in memory blocks the caller.
 *  READ_FILE, WRITE_FILE  work on a regular file, of which the handle is, from an offset on, and leave the file's own
 *            position alone. At most 1 MiB is moved; with MR_ALL a WRITE_FILE completes when all is written. Operations on
 *            one file run beside each other.
 *  SYNC_FILE ends when the disk has what was written by operations that had completed before.
 *            On io_uring the kernel does these three meanwhile, on iocp the first two; elsewhere they block the caller
 *            (docs/CONTRACT.md). On Windows the file must have been opened with FILE_FLAG_OVERLAPPED.
 *  SEND_THEN_RECEIVE
 *            sends a part of a borrowed buffer without waiting, and then receives as RECV with MR_BORROW does: what a server does
 *            that answers and waits for the next request, in one operation and with one wake-up. The buffer is the
 *            loop's from the submission on, which gives it back once its bytes are sent. If they could not all be
 *            sent at once, nothing is received: the result is mr_not_sent(n), n of them have gone, and the buffer is the
 *            caller's again; so it is after -EINVAL. No other send may be in flight on the handle. It may wait for the
 *            next poll before it sends, with others, unless two polls were more than 2 ms apart. Cancelled or closed, or
 *            followed by a SHUTDOWN, it has tried to send all the same.
 *  WAIT_WRITABLE ends also when the descriptor has an error; not when the peer's stream ends.
 *  SHUTDOWN  ends what waits in its direction, on every loop: receives with 0 (of datagrams, too), ACCEPT with -EINVAL, sends
 *            with -EPIPE, waits with 0. (On Windows a wait that begins only then need not end.) It is done before
 *            mr_loop_submit returns.
 *  CLOSE     is done before mr_loop_submit returns, unless operations are in flight on the descriptor. With SO_LINGER and
 *            a time set, the caller waits so long for what is unsent (socket(7)): close(2) heeds that on non-blocking
 *            sockets, too.
 */
typedef enum mr_kind {
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) MR_##NAME,
#include "operation.def"
    MR_KIND_COUNT
} mr_kind;

/* The name of an operation in messages: "accept". */
const char *mr_kind_name(mr_kind kind);

/* An ACCEPT, a receive, a SEND_THEN_RECEIVE, a READ_FILE and a WAIT_READABLE read; a CONNECT, a send, the other file
 * operations and a WAIT_WRITABLE write. */
typedef enum mr_direction { MR_READING = 0, MR_WRITING = 1, MR_DIRECTIONS = 2 } mr_direction;

/* SEND, SEND_VECTOR, WRITE_FILE: complete only when all bytes were sent. The loop may send them all within one call,
 * so hand over no more than a megabyte or so at a time. */
#define MR_ALL 1u
/* RECV: no buffer is given; when bytes are there the loop lends one, and the completion carries it. Thousands may
 * wait and occupy no memory. `length` still bounds what is received. */
#define MR_BORROW 4u
/* deadline_ns is a length of time; it begins when the operation has to wait. What is done at once then costs no look
 * at the clock. Not for TIMEOUT. */
#define MR_WITHIN 8u
/* SEND: another send or SEND_FILE follows at once, and may go out together with these bytes. A hint: on Linux a
 * short segment waits for it, though not longer than 200 ms (MSG_MORE); elsewhere nothing. */
#define MR_MORE 16u
/* WAIT_*: the caller has just tried, and would have blocked. On a foreign descriptor the loop then does not look
 * before it waits, which saves a system call; it is told if there is something by now. A hint. */
#define MR_TRIED 32u
/* Complete with -EAGAIN instead of waiting; always done before submit returns. With MR_ALL, too, when only a part
 * could be sent. */
#define MR_NOW 2u

#define MR_NO_DEADLINE 0u
#define MR_VECTOR_MAX  1024 /* Elements of a vector. */

/* Where ACCEPT leaves the peer's address. Of an unnamed peer, `length` covers the family only. */
typedef struct mr_address {
    struct sockaddr_storage storage;
    socklen_t length;
} mr_address;

#define MR_BUFFER_BYTES 16384

/* Memory that a loop lends; the borrower's until it is given back. */
typedef struct mr_buffer {
    uint64_t length; /* bytes that were received into it */
    unsigned char bytes[MR_BUFFER_BYTES];
} mr_buffer;

/* What to do. Zero-initialise it, then set what the operation needs. The loop copies it. */
typedef struct mr_request {
    mr_kind kind;
    uint32_t flags;   /* MR_ALL, ... */
    mr_handle handle; /* all but TIMEOUT */
    void *buffer;     /* see the table above; owned by the loop until the completion */
    uint64_t length;
    uint64_t deadline_ns; /* on mr_clock_now_ns(); MR_NO_DEADLINE for none. TIMEOUT: 0 means already due.
                             See MR_WITHIN. */
    uint64_t user_data;   /* comes back in the completion */
    uint64_t offset;      /* *_FILE: where in the file to begin; SEND_THEN_RECEIVE: where in the buffer's bytes */
    int file;             /* SEND_FILE: a descriptor that stays open until the completion */
} mr_request;

/* Names an operation: less than 2^60, never 0. */
typedef uint64_t mr_token;

/* The index of the loop that a token belongs to (its order of creation in the group), and its slot on that loop. */
uint32_t mr_token_loop(mr_token token);
uint32_t mr_token_slot(mr_token token);

/* How an operation ended. */
typedef struct mr_completion {
    mr_token token;
    uint64_t user_data;
    int64_t result;       /* >= 0, or a negative errno: -ECANCELED cancelled, -ETIMEDOUT deadline passed (or the
                             peer stopped answering), -EBADF closed or never open, or the system's own error. */
    uint64_t transferred; /* bytes moved, also when result is an error */
    mr_buffer *buffer;    /* MR_BORROW, SEND_THEN_RECEIVE, if bytes were received: to be given back. Otherwise NULL. */
} mr_completion;

/* The result of a SEND_THEN_RECEIVE that could send only so many of its bytes at once, and what such a result says: how
 * many, or -1 if it is another one. */
#define MR_NOT_SENT (INT64_C(1) << 32)
static inline int64_t mr_not_sent(int64_t sent)
{
    return -MR_NOT_SENT - sent;
}
static inline int64_t mr_sent_only(int64_t result)
{
    return result <= -MR_NOT_SENT ? -MR_NOT_SENT - result : -1;
}

/* Does a SEND_FILE end with this because the file could not be read? 0 if the connection is to blame, or either may be (EBADF,
 * ENOMEM). [any thread] */
int mr_is_error_of_file(int64_t result);

/* --------------------------------------------------------------------------------------------------- loops --- */

typedef struct mr_loop mr_loop;

/* What a loop did since it was created. */
typedef struct mr_counters {
    uint64_t operations;    /* submitted, TIMEOUTs included */
    uint64_t completions;   /* delivered by poll, or done inside submit */
    uint64_t parks;         /* operations that could not be done at once */
    uint64_t system_calls;  /* made by this loop, for any reason */
    uint64_t waits;         /* times the loop went to sleep */
    uint64_t wake_ups;      /* times another thread woke it */
    uint64_t resubmissions; /* operations begun again: the kernel cancelled them because the thread that had
                                 submitted them ended, or ACCEPT was short of descriptors */
    uint64_t in_flight;     /* operations pending now */
} mr_counters;

/* Creates a loop. -ENOMEM, -EMFILE, ..., or -E2BIG beyond MR_LOOPS_MAX. [any thread] */
int mr_loop_create(mr_group *group, mr_loop **loop);

/*
 * Creates a group and its first `count` loops, or nothing. A choice that is automatic (see mr_backend_choose) falls back to
 * the next backend as well if this one has no room for all of the loops, which no probe can see: where the kernel counts
 * the memory of rings (before Linux 5.12, and newer ones again), those of all processes of a user share RLIMIT_MEMLOCK.
 */
int mr_group_create_with_loops(mr_backend requested, unsigned count, mr_loop **loops, mr_group **group);

/*
 * The same for a group whose loops, these and later ones, each have one thread for good: it alone calls the loop's [owner]
 * functions and mr_loop_wait, from the first one that submits, polls or waits to the last. io_uring then delivers what has
 * come when the owner polls, all at once (Linux 6.1), and not whenever its thread makes a system call: for owners that make
 * calls of their own between polls. To other backends it makes no difference.
 */
int mr_group_create_with_owned_loops(mr_backend requested, unsigned count, mr_loop **loops, mr_group **group);

/*
 * Frees a loop. Nothing may be in flight on it, and no MR_CLOSE on another loop of the group. Nor may another thread be in
 * a function that reaches every loop (mr_group_set_deadline, mr_group_recall, mr_group_let_go, an MR_SHUTDOWN) or polls a
 * loop that has let go of a descriptor for a close here a moment ago: where loops come and go while others run, a lock of
 * the caller's keeps them apart. [owner]
 */
void mr_loop_destroy(mr_loop *loop);

/* The loop's index in its group. */
uint32_t mr_loop_index(const mr_loop *loop);

typedef enum mr_status {
    MR_PENDING = 0, /* A completion will come, carrying the token. */
    MR_DONE = 1     /* Already over; the completion was filled in, no token was used and nothing is to be released. */
} mr_status;

/*
 * Starts an operation. Does not block. Fills in completion->token (MR_PENDING) or the whole completion (MR_DONE).
 * A mistake in the request is an operation that is done with -EINVAL; a stale handle, with -EBADF. [owner] O(1).
 */
mr_status mr_loop_submit(mr_loop *loop, const mr_request *request, mr_completion *completion);

/*
 * Submission in two steps, for callers who must know the token before anything can complete: reserve a token for
 * an operation (of kind TIMEOUT, or of any other kind), then start it. A started operation is always MR_PENDING: even if done at once it arrives by poll.
 * A reserved token that is not wanted is given back with mr_loop_release. -ENOMEM. [owner] O(1).
 */
int mr_loop_reserve(mr_loop *loop, mr_kind kind, mr_token *token);
void mr_loop_start(mr_loop *loop, mr_token token, const mr_request *request);

/* Asks a pending operation to end with -ECANCELED. Harmless on stale tokens and ended operations. [owner] O(1). */
void mr_loop_cancel(mr_loop *loop, mr_token token);

/* Moves the deadline of a pending operation, TIMEOUT included. Harmless when too late. [owner] O(1). */
void mr_loop_update(mr_loop *loop, mr_token token, uint64_t deadline_ns);

/*
 * Cancels a pending TIMEOUT without a completion. Returns 1: the token is reserved again, to be released or started. Or
 * 0 if the token is stale or its completion has been polled or is about to be: then it must be taken and released as
 * usual. [owner] O(1).
 */
int mr_loop_discard(mr_loop *loop, mr_token token);

/*
 * Sets a deadline for all operations of one direction on a descriptor, those in flight and those to come, until it is set
 * again: each ends when this or its own deadline has passed, whichever is earlier. MR_NO_DEADLINE for none. A deadline
 * that has passed ends an operation that would wait, not one that can be done at once. Moving it to a later moment, as
 * after every activity on a connection, is a store.
 *
 * `owned`: a loop that the caller owns, or NULL; other loops learn of an earlier deadline through their mailboxes. 0, or
 * -EBADF if the handle is closed. [any thread] O(loops of the group) if the deadline is now earlier, else O(1).
 */
int mr_group_set_deadline(mr_group *group, mr_loop *owned, mr_handle handle, mr_direction direction,
                          uint64_t deadline_ns);

/*
 * Has everybody ask again who waits on a descriptor to receive, to accept or for readability: these operations end with
 * -EINTR, or with what they have got already. For layers above that keep what was received for somebody who is gone. Whoever
 * begins to wait must look for that himself, after his operation is submitted. An MR_SEND_THEN_RECEIVE ends so when all is sent.
 *
 * `owned` as above. 0, or -EBADF if the handle is closed. [any thread] O(loops of the group).
 */
int mr_group_recall(mr_group *group, mr_loop *owned, mr_handle handle);

/* Gives back the token of a completion that was polled (or of a reservation). [owner] O(1). */
void mr_loop_release(mr_loop *loop, mr_token token);

/* Lends a buffer without receiving. NULL without memory. [owner] O(1). */
mr_buffer *mr_loop_borrow(mr_loop *loop);

/* Takes back a buffer that this loop, or any other, has lent. [owner] O(1). */
void mr_loop_give_back(mr_loop *loop, mr_buffer *buffer);

/* A buffer that comes from no loop, and the end of one that goes back to none. [any thread] */
mr_buffer *mr_buffer_create(void);
void mr_buffer_destroy(mr_buffer *buffer);

/* How many of the loop's buffers are out: lent, in the hands of a receive, or given to the kernel for receives to come
 * (io_uring: as many as were ever needed at once, up to 1024). Right while buffers are given back to the loop that has lent
 * them. [owner], for reports. */
int64_t mr_loop_buffers_out(const mr_loop *loop);

/* Operations from outside: carried out by the owner's next poll. They wake the loop if it sleeps. [any thread] O(1). */
void mr_loop_start_remote(mr_loop *loop, mr_token token, const mr_request *request);
void mr_loop_cancel_remote(mr_loop *loop, mr_token token);
void mr_loop_update_remote(mr_loop *loop, mr_token token, uint64_t deadline_ns);
void mr_loop_release_remote(mr_loop *loop, mr_token token);

/*
 * Hands queued operations to the kernel, fires timers that are due, and takes up to `capacity` completions.
 * Never blocks. Returns their number; 0 means that nothing has happened. [owner] O(completions).
 */
int mr_loop_poll(mr_loop *loop, mr_completion *completions, int capacity);

/*
 * Announces that the owner is about to sleep. Returns 1 if it may (the next call on this thread must then be
 * mr_loop_wait, the next [owner] poll ends the sleep), or 0 if there is something to poll. [owner]
 */
int mr_loop_prepare_wait(mr_loop *loop);

/* Blocks until something may be ready, the next timer is due, or the loop is woken. May return early. */
void mr_loop_wait(mr_loop *loop);

/* Makes a current or coming mr_loop_wait return. [any thread] */
void mr_loop_wake(mr_loop *loop);

/* An operation that has not ended. */
typedef struct mr_pending {
    mr_token token;
    mr_kind kind;
    int descriptor; /* -1: none */
    uint64_t deadline_ns;
    uint64_t user_data;
} mr_pending;

/* Lists up to `capacity` operations that have not ended; returns how many there are. [owner] O(slots), for reports. */
size_t mr_loop_list(const mr_loop *loop, mr_pending *list, size_t capacity);

/* A copy of the counters; from another thread it may be a moment old. [any thread] */
void mr_loop_counters(const mr_loop *loop, mr_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
