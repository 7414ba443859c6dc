/*
 * millrace.h: the completion core of Millrace.
 *
 * A program submits *operations* (accept, recv, send, a timeout, ...) to a *loop* and polls *completions*. A *backend*
 * carries operations out on one operating system; this header does not depend on which. There are no callbacks, so any
 * language and any kind of thread can use it. Must not know: GHC.
 *
 * Four rules about lifetimes
 *
 *  1. Every accepted operation (MR_PENDING) has exactly one completion. Cancelling it, closing its descriptor or
 *     passing its deadline makes the completion come earlier, and never adds one.
 *  2. The buffer, address or vector of an operation belongs to the loop until its completion has been polled.
 *     The loop does not use it afterwards.
 *  3. A token is valid until it is released (mr_loop_release). Until then its slot is not used again. The loop
 *     recognises a stale token by its generation and ignores it.
 *  4. A descriptor is closed only after all operations on it have ended: mr_loop_submit of MR_CLOSE first ends them
 *     with -EBADF, on every loop of the group.
 *
 * Threads
 *
 *  Functions marked [owner] use the state of a loop without a lock. The caller must ensure that no two of them run at
 *  the same time on one loop: with one thread per loop, or with a lock that exists anyway.
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
/* Names that Windows lacks. Descriptors are socket handles there, of which 32 bits are significant. */
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
    MR_BACKEND_AUTO = 0,     /* MILLRACE_BACKEND if set, else the best one here: see mr_backend_choose. */
    MR_BACKEND_IO_URING = 1, /* Linux 5.19 and later, where it is allowed. */
    MR_BACKEND_EPOLL = 2,    /* Linux. Operations on files block their caller. */
    MR_BACKEND_HYBRID = 3,   /* Linux, where io_uring is allowed: epoll for sockets, io_uring for files. */
    MR_BACKEND_KQUEUE = 4,   /* FreeBSD, NetBSD 10, macOS. */
    MR_BACKEND_IOCP = 5,     /* Windows 8 and later. */
    MR_BACKEND_SIM = 6,      /* A simulated machine. Never chosen: see millrace_machine.h. */
    MR_BACKEND_COUNT = 7
} mr_backend;

/* The name that MILLRACE_BACKEND and the command line use: "auto", "io_uring", "epoll", "hybrid", "kqueue",
 * "iocp", "sim". */
const char *mr_backend_name(mr_backend backend);

/* Finds the backend with this name. Returns 0, or -EINVAL if there is none. */
int mr_backend_parse(const char *name, mr_backend *backend);

/*
 * Checks whether a backend works here. Returns 0, or a negative errno (-ENOTSUP: it belongs to another operating
 * system) and a sentence with the reason in `reason` (`reason_size` bytes, may be NULL). Probing io_uring calls
 * io_uring_setup. Do not probe it under a seccomp profile that kills the process for that call; mr_backend_choose does
 * not probe it when another backend is named. [any thread]
 */
int mr_backend_probe(mr_backend backend, char *reason, size_t reason_size);

/*
 * Decides which backend to use. If one is named (by the argument, or else by MILLRACE_BACKEND), it is used, or the
 * result is the error of its probe. Otherwise the first that works is used: on Linux hybrid, then epoll; where each
 * loop has a single thread for its whole life (mr_group_create_with_owned_loops) io_uring, then epoll. -EINVAL:
 * MILLRACE_BACKEND names no backend. [any thread]
 */
int mr_backend_choose(mr_backend requested, mr_backend *chosen);

#ifdef _WIN32
/* Converts an error of WSAGetLastError or GetLastError to the negative errno that an operation would end with; -EIO if
 * no other one fits. */
int mr_error_of_winsock(int error);
#endif

/* --------------------------------------------------------------------------------------------------- clock --- */

/* Now, in nanoseconds on the monotonic clock that all deadlines use. It starts at an arbitrary point, never 0. Loops of
 * a simulated machine use the machine's clock instead (mr_group_now_ns). */
uint64_t mr_clock_now_ns(void);

/* -------------------------------------------------------------------------------------- groups and handles --- */

/* Loops that share descriptors: an operation may be submitted to any loop of the group that knows its handle. */
typedef struct mr_group mr_group;

/* A descriptor number and a generation. Once the descriptor is closed its handle is invalid, and never means a later
 * descriptor with the same number. */
typedef uint64_t mr_handle;

#define MR_LOOPS_MAX 1024 /* The number of loops that a group can ever have. An index is not used again. */

/* Creates a group whose loops all use one backend (see mr_backend_choose). Returns 0, -ENOMEM, or the error of
 * mr_backend_choose. May wait as mr_loop_create does. */
int mr_group_create(mr_backend requested, mr_group **group);

/* Frees a group. Destroy all its loops first. Descriptors that are still open stay open. */
void mr_group_destroy(mr_group *group);

/* The backend that was chosen for the group. [any thread] */
mr_backend mr_group_backend(const mr_group *group);

/* Sets the index of the group's next loop (below MR_LOOPS_MAX); later loops count up from there. So two groups can have
 * tokens that differ. Call it before the loops are created. */
void mr_group_number_from(mr_group *group, uint32_t first);

/* Now, on the clock of the group's deadlines. [any thread] */
uint64_t mr_group_now_ns(const mr_group *group);

/*
 * Makes an open descriptor the group's: a socket in non-blocking mode, or a regular file. From now on only MR_CLOSE may
 * close it. Returns 0 and the handle, -EBADF for a negative number, or -ENOMEM. [any thread]
 */
int mr_group_adopt(mr_group *group, int descriptor, mr_handle *handle);

/* Returns 1 while the handle means an open descriptor, else 0. Another thread may close it at any time. [any thread] */
int mr_group_is_open(mr_group *group, mr_handle handle);

/*
 * Keeps the descriptor open until mr_group_release, so that the caller can make system calls with its number for which
 * there is no operation. Returns 0, or -EBADF if the handle is closed or being closed. An MR_CLOSE waits until every
 * holder has released the descriptor, so release it soon. [any thread]
 */
int mr_group_hold(mr_group *group, mr_handle handle);
void mr_group_release(mr_group *group, mr_handle handle);

/*
 * Makes a handle for a descriptor that was not adopted (a foreign descriptor). Only MR_WAIT_READABLE and
 * MR_WAIT_WRITABLE accept it. Do not close the descriptor during a wait: the wait may then end only when it is
 * cancelled. If the number belongs to an adopted descriptor when the wait begins, the wait uses the adopted handle, and
 * MR_CLOSE ends it.
 */
mr_handle mr_handle_foreign(int descriptor);

/* The descriptor number inside a handle. */
int mr_handle_descriptor(mr_handle handle);

/*
 * Call this in the child after fork(), before anything else. It frees every loop of the group and this process's copies
 * of their kernel objects, without disturbing the parent. Handles stay valid, and new loops may be created. Operations
 * in flight belong to the parent and do not exist in the child.
 */
void mr_group_reset_after_fork(mr_group *group);

/* ---------------------------------------------------------------------------------------------- operations --- */

/*
 *  operation (operation.def)  buffer                            length              result on success
 *  ACCEPT                     mr_address, or NULL               -                   the new descriptor
 *  CONNECT                    struct sockaddr                   its length          0
 *  RECV                       memory for the bytes              bytes               bytes received, 0 at end of stream
 *  SEND                       the bytes                         bytes               bytes sent
 *  RECV_VECTOR, SEND_VECTOR   struct iovec[]                    number of elements  as RECV and SEND
 *  WAIT_READABLE, _WRITABLE   -                                 -                   0
 *  SHUTDOWN                   -                                 SHUT_RD, _WR, _RDWR 0
 *  CLOSE                      -                                 -                   0
 *  SEND_FILE                  - (`file` and `offset` instead)   bytes               bytes sent, 0 at the file's end
 *  READ_FILE                  memory for the bytes (`offset`)   bytes               bytes read, 0 at the file's end
 *  WRITE_FILE                 the bytes (`offset`)              bytes               bytes written
 *  SYNC_FILE                  -                                 -                   0
 *  SEND_THEN_RECEIVE          mr_buffer with bytes at `offset`  bytes to send       as RECV with MR_BORROW
 *  TIMEOUT                    -                                 -                   0, when deadline_ns has passed
 *
 *  ACCEPT    makes the descriptor non-blocking and close-on-exec; it is not adopted yet. A connection that was reset
 *            while queued is skipped. Without descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM) it waits and
 *            tries again after 10 ms, doubling up to 200 ms, for as long as its deadline allows.
 *  SEND      never raises SIGPIPE. With MR_ALL it completes when everything was sent, or with an error; `transferred`
 *            is the number of bytes that were sent before.
 *  SEND_VECTOR with MR_ALL modifies the vector.
 *  RECV      completes with the received bytes if it is cancelled, or its deadline passes, after bytes were received.
 *  SEND_FILE sends at most 1 MiB of a regular file. Reading pages that are not in memory blocks the caller; see
 *            MR_CACHED.
 *  READ_FILE, WRITE_FILE
 *            read and write at most 1 MiB of a regular file at an offset, and do not move the file's position. With
 *            MR_ALL a WRITE_FILE completes when everything is written. Operations on one file run at the same time.
 *  SYNC_FILE completes when the disk has everything that was written by operations which completed before.
 *            These three are asynchronous on hybrid and io_uring, and the first two on iocp. Elsewhere they block the
 *            caller (docs/CONTRACT.md). On Windows the file must have been opened with FILE_FLAG_OVERLAPPED.
 *  SEND_THEN_RECEIVE
 *            sends a part of a borrowed buffer without waiting, and then receives as RECV with MR_BORROW does. With it,
 *            a server answers and waits for the next request in one operation and with one wake-up. The buffer belongs
 *            to the loop from the submission on; the loop frees it once its bytes are sent. If not all bytes can be
 *            sent at once, nothing is received: the result is mr_not_sent(n), n bytes were sent, and the buffer belongs
 *            to the caller again, as after -EINVAL. No other send may be in flight on the handle. The send may be
 *            delayed to the next poll, which sends many together, unless two polls were more than 2 ms apart. It tries
 *            to send even if the operation is cancelled or closed, or a SHUTDOWN follows.
 *  WAIT_WRITABLE also completes when the descriptor has an error, but not when the peer's stream ends.
 *  SHUTDOWN  ends the operations that wait in its direction, on every loop: receives with 0 (of datagrams too), ACCEPT
 *            with -EINVAL, sends with -EPIPE, waits with 0. (On Windows a wait that begins later need not end.) It
 *            completes before mr_loop_submit returns.
 *  CLOSE     completes before mr_loop_submit returns, unless operations are in flight on the descriptor. With SO_LINGER
 *            and a time, the caller blocks up to that time for unsent bytes (socket(7)), as in close(2).
 */
typedef enum mr_kind {
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) MR_##NAME,
#include "operation.def"
    MR_KIND_COUNT
} mr_kind;

/* The name of a kind of operation in messages: "accept". */
const char *mr_kind_name(mr_kind kind);

/* The direction of an operation. ACCEPT, receives, SEND_THEN_RECEIVE, READ_FILE and WAIT_READABLE read. CONNECT, sends,
 * the other file operations and WAIT_WRITABLE write. */
typedef enum mr_direction { MR_READING = 0, MR_WRITING = 1, MR_DIRECTIONS = 2 } mr_direction;

/* SEND, SEND_VECTOR, WRITE_FILE: complete only when all bytes were sent. The loop may send them all in one call, so
 * submit at most a megabyte or so at a time. */
#define MR_ALL 1u
/* RECV: the request has no buffer. When bytes arrive, the loop provides one, and the completion points to it. So
 * thousands of receives can wait without memory for their bytes. `length` still limits the number of bytes. */
#define MR_BORROW 4u
/* deadline_ns is a duration, which starts when the operation has to wait. So an operation that completes at once does
 * not read the clock. Not for TIMEOUT. */
#define MR_WITHIN 8u
/* SEND: another send or SEND_FILE follows at once. A hint: on Linux, a short segment then waits for the next bytes for
 * at most 200 ms (MSG_MORE). Elsewhere it has no effect. */
#define MR_MORE 16u
/* WAIT_*: the caller has just tried and would have blocked. A hint: on a foreign descriptor the loop then waits without
 * polling first, which saves a system call. The wait still ends at once if the descriptor has become ready. */
#define MR_TRIED 32u
/* SEND_FILE: completes with -MR_NOT_CACHED, and sends nothing, if it would read from a disk. The caller then reads the
 * bytes on a thread that may block, and submits the operation again. If the system cannot tell whether it would read
 * from a disk, the file is sent. The check comes before each attempt, also after a wait: one system call for up to 64
 * KiB, two or three for more. It has an effect only where the caller would wait for the disk (docs/CONTRACT.md:
 * io_uring, epoll, hybrid, kqueue). */
#define MR_CACHED     64u
#define MR_NOT_CACHED 10002
/* Completes with -EAGAIN instead of waiting, always before submit returns. This includes a send with MR_ALL of which
 * only a part could be sent. */
#define MR_NOW 2u

#define MR_NO_DEADLINE 0u
#define MR_VECTOR_MAX  1024 /* The largest number of elements of a vector. */

/* ACCEPT writes the peer's address here. If the peer has no name, `length` covers only the family. */
typedef struct mr_address {
    struct sockaddr_storage storage;
    socklen_t length;
} mr_address;

#define MR_BUFFER_BYTES 16384

/* A borrowed buffer. It belongs to the borrower until mr_loop_give_back or mr_buffer_destroy. */
typedef struct mr_buffer {
    uint64_t length; /* the number of received bytes */
    unsigned char bytes[MR_BUFFER_BYTES];
} mr_buffer;

/* Describes an operation. Zero-initialise it, then set what the operation needs. The loop copies it. */
typedef struct mr_request {
    mr_kind kind;
    uint32_t flags;   /* MR_ALL, ... */
    mr_handle handle; /* all but TIMEOUT */
    void *buffer;     /* see the table above; owned by the loop until the completion */
    uint64_t length;
    uint64_t deadline_ns; /* on mr_clock_now_ns(); MR_NO_DEADLINE for none. TIMEOUT: 0 means already due.
                             See MR_WITHIN. */
    uint64_t user_data;   /* returned in the completion */
    uint64_t offset;      /* *_FILE: the first byte in the file; SEND_THEN_RECEIVE: in the buffer */
    int file;             /* SEND_FILE: a descriptor that stays open until the completion */
} mr_request;

/* Identifies an operation in flight. Less than 2^60, never 0. */
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
    mr_buffer *buffer;    /* MR_BORROW, SEND_THEN_RECEIVE: the buffer with the bytes, to be given back; or NULL */
} mr_completion;

/* mr_not_sent is the result of a SEND_THEN_RECEIVE that could send only `sent` bytes at once. mr_sent_only converts
 * such a result back, and returns -1 for any other one. */
#define MR_NOT_SENT (INT64_C(1) << 32)
static inline int64_t mr_not_sent(int64_t sent)
{
    return -MR_NOT_SENT - sent;
}
static inline int64_t mr_sent_only(int64_t result)
{
    return result <= -MR_NOT_SENT ? -MR_NOT_SENT - result : -1;
}

/* Returns 1 if a SEND_FILE with this result failed because the file could not be read. Returns 0 if the connection
 * failed, or if the error may have either cause (EBADF, ENOMEM). [any thread] */
int mr_is_error_of_file(int64_t result);

/* Tells whether reading some bytes of a file would wait for a disk. MR_CACHE_UNKNOWN if the system cannot tell: on file
 * systems such as overlayfs and tmpfs, and on systems other than Linux. It may miss a gap of less than 64 KiB, and a
 * larger one where the system has no cachestat or refuses it. Bytes beyond the end of the file count as cached. The
 * call does not block, but the system may begin to read. [any thread] */
typedef enum mr_cache_state { MR_IN_CACHE, MR_NOT_IN_CACHE, MR_CACHE_UNKNOWN } mr_cache_state;
mr_cache_state mr_file_cache_state(int file, uint64_t offset, uint64_t length);

/* --------------------------------------------------------------------------------------------------- loops --- */

typedef struct mr_loop mr_loop;

/* Counts events of one loop since it was created. */
typedef struct mr_counters {
    uint64_t operations;    /* submitted operations, including TIMEOUTs */
    uint64_t completions;   /* completions, polled or returned by submit */
    uint64_t parks;         /* operations that did not complete at once */
    uint64_t system_calls;  /* system calls that this loop made */
    uint64_t waits;         /* times the loop went to sleep */
    uint64_t wake_ups;      /* times another thread woke it */
    uint64_t resubmissions; /* operations started again, because the thread that had submitted them ended,
                                 or because ACCEPT had no descriptors */
    uint64_t in_flight;     /* operations pending now */
} mr_counters;

/* Creates a loop. Returns 0, -ENOMEM, -EMFILE, ..., or -E2BIG beyond MR_LOOPS_MAX. If RLIMIT_MEMLOCK leaves no memory
 * for a ring of io_uring, it waits up to a tenth of a second for some. [any thread] */
int mr_loop_create(mr_group *group, mr_loop **loop);

/*
 * Creates a group and its first `count` loops, or nothing. Returns 0 or a negative errno. The automatic choice (see
 * mr_backend_choose) also falls back to the next backend if this one has not enough memory for all the loops. A probe
 * cannot find this: some kernels (before Linux 5.12, and newer ones again) count the memory of all rings of a user
 * towards RLIMIT_MEMLOCK.
 */
int mr_group_create_with_loops(mr_backend requested, unsigned count, mr_loop **loops, mr_group **group);

/*
 * Creates a group and its first loops, as mr_group_create_with_loops does, and promises that each loop, also a later
 * one, has a single thread for its whole life: only that thread calls the loop's [owner] functions and mr_loop_wait,
 * from the first submit, poll or wait on. Then io_uring delivers completions only when the owner polls (Linux 6.1), and
 * not at every system call of its thread. Use it for owners that make their own system calls between polls. It makes no
 * difference to other backends.
 */
int mr_group_create_with_owned_loops(mr_backend requested, unsigned count, mr_loop **loops, mr_group **group);

/*
 * Frees a loop. No operation may be in flight on it, and no MR_CLOSE on any loop of the group. No other thread may be
 * in a function that uses every loop (mr_group_set_deadline, mr_group_interrupt, mr_group_release, an MR_SHUTDOWN), or
 * poll a loop that has just released a descriptor which this loop closes. A caller that destroys loops while others run
 * needs a lock for this. [owner]
 */
void mr_loop_destroy(mr_loop *loop);

/* The loop's index in its group. */
uint32_t mr_loop_index(const mr_loop *loop);

typedef enum mr_status {
    MR_PENDING = 0, /* A completion with the token will come. */
    MR_DONE = 1     /* Completed: the completion is filled in, and there is no token to release. */
} mr_status;

/*
 * Starts an operation. Does not block. Fills in completion->token (MR_PENDING) or the whole completion (MR_DONE). A
 * wrong request completes with -EINVAL, a stale handle with -EBADF. [owner] O(1).
 */
mr_status mr_loop_submit(mr_loop *loop, const mr_request *request, mr_completion *completion);

/*
 * Submits an operation in two steps, for a caller that needs the token before the operation can complete. First reserve
 * a token, for kind TIMEOUT or for any other kind; then start the operation. A started operation is always MR_PENDING:
 * its completion is always polled. Release a reserved token that is not needed with mr_loop_release. mr_loop_reserve
 * returns 0 or -ENOMEM. [owner] O(1).
 */
int mr_loop_reserve(mr_loop *loop, mr_kind kind, mr_token *token);
void mr_loop_start(mr_loop *loop, mr_token token, const mr_request *request);

/* Asks a pending operation to end with -ECANCELED. Does nothing if it has ended or the token is stale. [owner] O(1). */
void mr_loop_cancel(mr_loop *loop, mr_token token);

/* Changes the deadline of a pending operation or TIMEOUT. Does nothing if it has ended. [owner] O(1). */
void mr_loop_update(mr_loop *loop, mr_token token, uint64_t deadline_ns);

/*
 * Cancels a pending TIMEOUT without a completion. Returns 1 if the token is now reserved again, to be released or
 * started. Returns 0 if the token is stale, or if its completion was polled or will be; handle that completion as
 * usual. [owner] O(1).
 */
int mr_loop_discard(mr_loop *loop, mr_token token);

/*
 * Sets a deadline for all operations of one direction on a descriptor, current and future ones, until it is set again.
 * An operation ends when this or its own deadline has passed, whichever is earlier. MR_NO_DEADLINE removes it. A
 * deadline in the past does not end an operation that can complete at once. Moving it to a later moment, as after every
 * activity on a connection, is one store.
 *
 * `owned` is a loop that the caller owns, or NULL. Other loops learn of an earlier deadline through their mailboxes.
 * Returns 0, or -EBADF if the handle is closed. [any thread] O(loops of the group) if the deadline is now earlier, else
 * O(1).
 */
int mr_group_set_deadline(mr_group *group, mr_loop *owned, mr_handle handle, mr_direction direction,
                          uint64_t deadline_ns);

/*
 * Ends the operations that wait on a descriptor to receive, to accept or for readability, so that their callers try
 * again. They end with -EINTR, or with the bytes they already have; an MR_SEND_THEN_RECEIVE ends when everything is
 * sent. A layer above the core needs this when it keeps bytes of an interrupted receive for another thread. A thread
 * that begins to wait must look for such bytes itself, after it has submitted its operation.
 *
 * `owned` as above. Returns 0, or -EBADF if the handle is closed. [any thread] O(loops of the group).
 */
int mr_group_interrupt(mr_group *group, mr_loop *owned, mr_handle handle);

/* Releases the token of a polled completion or of a reservation. [owner] O(1). */
void mr_loop_release(mr_loop *loop, mr_token token);

/* Borrows a buffer without receiving. Returns NULL if there is no memory. [owner] O(1). */
mr_buffer *mr_loop_borrow(mr_loop *loop);

/* Gives a borrowed buffer back to this loop, also if it came from another one. [owner] O(1). */
void mr_loop_give_back(mr_loop *loop, mr_buffer *buffer);

/* Creates a buffer without a loop (NULL: no memory), and frees a buffer that is not given back to a loop. [any
 * thread] */
mr_buffer *mr_buffer_create(void);
void mr_buffer_destroy(mr_buffer *buffer);

/* Counts the loop's buffers in use: borrowed, part of a receive, or provided to the kernel for future receives
 * (io_uring: as many as were ever needed at once, up to 1024). The number is right if every buffer goes back to the
 * loop it came from. [owner], for reports. */
int64_t mr_loop_buffers_in_use(const mr_loop *loop);

/* mr_loop_start, _cancel, _update and _release for threads that do not own the loop. They post a message, and wake the
 * loop if it sleeps; the owner's next poll carries it out. [any thread] O(1). */
void mr_loop_start_remote(mr_loop *loop, mr_token token, const mr_request *request);
void mr_loop_cancel_remote(mr_loop *loop, mr_token token);
void mr_loop_update_remote(mr_loop *loop, mr_token token, uint64_t deadline_ns);
void mr_loop_release_remote(mr_loop *loop, mr_token token);

/*
 * Submits queued operations to the kernel, fires due timers, and writes up to `capacity` completions. Never blocks.
 * Returns the number of completions. [owner] O(completions).
 */
int mr_loop_poll(mr_loop *loop, mr_completion *completions, int capacity);

/*
 * Announces that the owner is about to sleep. Returns 1 if it may sleep: then the next call on this thread must be
 * mr_loop_wait, and the owner's next poll ends the sleep. Returns 0 if there is something to poll. [owner]
 */
int mr_loop_prepare_wait(mr_loop *loop);

/* Blocks until there may be completions to poll, the next timer is due, or mr_loop_wake wakes the loop. May return
 * early. */
void mr_loop_wait(mr_loop *loop);

/* Makes the current or the next mr_loop_wait return. [any thread] */
void mr_loop_wake(mr_loop *loop);

/* An operation that has not ended. */
typedef struct mr_pending {
    mr_token token;
    mr_kind kind;
    int descriptor; /* -1: none */
    uint64_t deadline_ns;
    uint64_t user_data;
} mr_pending;

/* Lists up to `capacity` operations that have not ended. Returns their total number. [owner] O(slots), for reports. */
size_t mr_loop_list(const mr_loop *loop, mr_pending *list, size_t capacity);

/* Checks the loop's records and lists against each other. Prints the condition that does not hold and aborts the
 * process if they contradict each other. [owner] O(slots), for tests and for finding a defect. */
void mr_loop_check(const mr_loop *loop);

/* Runs mr_loop_check after every poll of every loop of the group from now on; after fewer polls of loops with more than
 * a thousand operations. A simulated machine's group does so from the beginning. */
void mr_group_check_polls(mr_group *group);

/* Copies the counters. On a thread other than the owner's they may be a moment old. [any thread] */
void mr_loop_counters(const mr_loop *loop, mr_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
