/*
 * millrace_machine.h: a simulated machine.
 *
 * Its sockets, pipes, files and clock exist in memory only. So a program runs the same way every time, does not wait
 * for real time, and meets the faults that a plan chooses. The operations of a group of loops can work on such a
 * machine's descriptors (mr_machine_group). Must not know: loops.
 *
 * Calls named like those of POSIX do the same. They never block, and return a negative errno if they fail (-EAGAIN if
 * they would block). Any thread may call them. Descriptor numbers begin at MR_MACHINE_FIRST, above the kernel's, so a
 * number tells whether it belongs to a machine.
 *
 * The clock starts at one second and jumps: when a loop of the machine waits, the clock moves to the next event.
 * Between two waits no time passes. All random choices come from one generator, so a machine that one thread uses does
 * the same for the same seed.
 */
#ifndef MILLRACE_MACHINE_H
#define MILLRACE_MACHINE_H

#include "millrace.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_machine mr_machine;

/* The lowest descriptor number. Linux's highest is one less, unless fs.nr_open was raised. */
#define MR_MACHINE_FIRST    (1 << 20)
#define MR_MACHINE_START_NS UINT64_C(1000000000)

/* ------------------------------------------------------------------------------------------------------ plans --- */

/*
 * Faults. At most one of these happens to an operation:
 *
 *  SHORT           a transfer moves a few bytes only
 *  DELAY           the completion comes later
 *  RESET           the connection is reset before the operation
 *  RESET_AFTER     the connection is reset after the operation
 *  HALF_CLOSE      a send ends its direction first: the peer sees the end of the stream
 *  STALL           the bytes of a send, and all bytes after them, arrive much later
 *  NO_DESCRIPTORS  EMFILE, for an accept, a new socket or an open file
 *  NO_BUFFERS      ENOBUFS, for an accept, a send or a new socket
 *  DISK_FULL       ENOSPC, for a WRITE_FILE, a SYNC_FILE (delayed allocation) or a file that is created
 *  LOSS            a datagram never arrives
 *  DUPLICATION     a datagram arrives twice
 *  OVERTAKEN       a datagram takes longer; later ones may arrive before it
 *  INTERRUPTED     the first attempt ends as if a signal had arrived
 *  LATE_CANCEL     a cancellation takes time, during which the operation may still succeed
 *  IO_ERROR        EIO, for a READ_FILE, a WRITE_FILE, a SYNC_FILE or a call on files. A sync that fails loses the
 *                  bytes that were not on the disk yet
 */
#define MR_FAULTS(X)                    \
    X(SHORT, "short")                   \
    X(DELAY, "delay")                   \
    X(RESET, "reset")                   \
    X(RESET_AFTER, "reset_after")       \
    X(HALF_CLOSE, "half_close")         \
    X(STALL, "stall")                   \
    X(NO_DESCRIPTORS, "no_descriptors") \
    X(NO_BUFFERS, "no_buffers")         \
    X(DISK_FULL, "disk_full")           \
    X(LOSS, "loss")                     \
    X(DUPLICATION, "duplication")       \
    X(OVERTAKEN, "overtaken")           \
    X(INTERRUPTED, "interrupted")       \
    X(LATE_CANCEL, "late_cancel")       \
    X(IO_ERROR, "io_error")

typedef enum mr_fault {
    MR_FAULT_NONE,
#define MR_FAULT_ENUM(name, text) MR_FAULT_##name,
    MR_FAULTS(MR_FAULT_ENUM)
#undef MR_FAULT_ENUM
        MR_FAULT_COUNT
} mr_fault;

/* The name of a fault in traces: "half_close". */
const char *mr_fault_name(mr_fault fault);

/* A fault for the operation with this number (the machine's first operation is 1). */
typedef struct mr_planned_fault {
    uint64_t operation;
    mr_fault fault; /* ignored if it cannot happen to such an operation */
} mr_planned_fault;

/* Zero-initialise it. Then nothing fails, links have no latency, and only the seed matters. */
typedef struct mr_machine_plan {
    uint64_t seed;
    uint32_t per_million[MR_FAULT_COUNT]; /* the probability of each fault, for operations to which it can happen */
    const mr_planned_fault *planned;      /* in ascending order of `operation`; additional to the random ones */
    size_t planned_count;
    uint64_t delay_max_ns;     /* longest DELAY, OVERTAKEN and LATE_CANCEL; 0: 10 ms */
    uint64_t stall_ns;         /* duration of a STALL; 0: 30 s */
    uint64_t latency_ns;       /* from one end of a connection to the other */
    uint64_t bytes_per_second; /* of each direction of a connection; 0: no limit */
    uint32_t buffer_bytes;     /* unreceived bytes that a direction can hold; 0: 208 KiB */
    uint64_t disk_bytes;       /* bytes in all files before ENOSPC; 0: no limit */
    uint32_t descriptors_max;  /* descriptors before EMFILE; 0: as many as there are numbers */
    bool reorders;             /* deliver independent completions in any order */
    bool traces;               /* keep a trace */
} mr_machine_plan;

/* -------------------------------------------------------------------------------------------------- lifetime --- */

/* Creates a machine, with a copy of the plan. Returns 0 or -ENOMEM. */
int mr_machine_create(const mr_machine_plan *plan, mr_machine **machine);

/* Closes all descriptors and frees the machine. All groups on it must have been destroyed. */
void mr_machine_destroy(mr_machine *machine);

/* Creates a group whose loops work on this machine. Returns 0 or -ENOMEM. */
int mr_machine_group(mr_machine *machine, mr_group **group);

typedef struct mr_machine_state {
    uint64_t operations; /* operations so far: submitted to loops, sockets created, files opened, datagrams sent */
    uint64_t faults;     /* faults so far */
    uint64_t open_descriptors;
    uint64_t buffered_bytes; /* sent, and not yet received */
    uint64_t disk_bytes;     /* in files */
} mr_machine_state;

/* Copies the machine's counters. */
void mr_machine_inspect(mr_machine *machine, mr_machine_state *state);

/* The trace so far: one line per event, "seconds.nanoseconds text". Valid until the next call on the machine. */
const char *mr_machine_trace(mr_machine *machine, size_t *length);
/* Adds a line to the trace. */
void mr_machine_note(mr_machine *machine, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------------------------------------------------ time --- */

/* The time on the machine's clock. */
uint64_t mr_machine_now_ns(mr_machine *machine);

/*
 * Moves the clock to the machine's next event or to `until_ns`, whichever is first. Returns 1 if there may be something
 * to poll or `until_ns` has come. Returns 0 if nothing will ever happen by itself: `until_ns` is UINT64_MAX and there
 * is no event to come.
 */
int mr_machine_advance(mr_machine *machine, uint64_t until_ns);

/* Moves the clock as mr_loop_wait would, but never blocks. For the owner of a loop with nothing to poll. Returns 1 if
 * the owner should poll again, and 0 if nothing will ever happen by itself. [owner] */
int mr_machine_skip(mr_loop *loop);

/* A random number below `bound`, from the machine's generator. */
uint64_t mr_machine_random(mr_machine *machine, uint64_t bound);

/* Closes all descriptors. */
void mr_machine_close_all(mr_machine *machine);

/* Moves the clock by this duration, through all events within it. */
void mr_machine_sleep(mr_machine *machine, uint64_t duration_ns);

/* Makes the clock follow real time from now on; then waiting takes real time. For programs with several threads, where
 * the machine cannot know what other threads will do. */
void mr_machine_keep_real_time(mr_machine *machine);

/* Moves the clock to the machine's next event, for callers that emulate a blocking call. Returns 0, or -EDEADLK if
 * there is no event to come. */
int mr_machine_await(mr_machine *machine);

/* ---------------------------------------------------------------------------------------------- descriptors --- */

/* Whether a descriptor number is one of a machine. */
bool mr_machine_owns(int descriptor);

int mr_machine_socket(mr_machine *machine, int domain, int type, int protocol);
int mr_machine_socketpair(mr_machine *machine, int domain, int type, int protocol, int pair[2]);
int mr_machine_bind(mr_machine *machine, int descriptor, const struct sockaddr *address, socklen_t length);
int mr_machine_listen(mr_machine *machine, int descriptor, int backlog);
int mr_machine_connect(mr_machine *machine, int descriptor, const struct sockaddr *address, socklen_t length);
int mr_machine_accept(mr_machine *machine, int descriptor, struct sockaddr *address, socklen_t *length, int flags);
int mr_machine_getsockname(mr_machine *machine, int descriptor, struct sockaddr *address, socklen_t *length);
int mr_machine_getpeername(mr_machine *machine, int descriptor, struct sockaddr *address, socklen_t *length);
/* Options that have no effect on a machine can be set, and are read as 0. */
int mr_machine_getsockopt(mr_machine *machine, int descriptor, int level, int name, void *value, socklen_t *length);
int mr_machine_setsockopt(mr_machine *machine, int descriptor, int level, int name, const void *value,
                          socklen_t length);
int mr_machine_shutdown(mr_machine *machine, int descriptor, int how);
/* Returns 1 if the other end has closed the connection or shut down its sending side, even if bytes are still to be
 * received; else 0. poll reports this as POLLRDHUP, POLLHUP and POLLERR. */
int mr_machine_ended(mr_machine *machine, int descriptor);

/* Sockets, pipes, event counters and files. `flags`: MSG_OOB or 0, for sockets. */
ssize_t mr_machine_receive(mr_machine *machine, int descriptor, const struct iovec *elements, size_t count, int flags);
ssize_t mr_machine_send(mr_machine *machine, int descriptor, const struct iovec *elements, size_t count, int flags);
/* For sockets of type SOCK_DGRAM. If the address is NULL, the socket's peer is used. A datagram that is longer than the
 * buffer is truncated. A datagram is lost if the receiver's buffer is full. Not for AF_UNIX. */
ssize_t mr_machine_send_to(mr_machine *machine, int descriptor, const struct iovec *elements, size_t count,
                           const struct sockaddr *address, socklen_t length);
ssize_t mr_machine_receive_from(mr_machine *machine, int descriptor, const struct iovec *elements, size_t count,
                                struct sockaddr *address, socklen_t *length);
/* Returns 0 if the call would not block (the descriptor is ready, at its end, or has an error), else -EAGAIN. */
int mr_machine_readable(mr_machine *machine, int descriptor);
int mr_machine_writable(mr_machine *machine, int descriptor);

/* `flags`: O_NONBLOCK or 0. */
int mr_machine_pipe(mr_machine *machine, int ends[2], int flags);
int mr_machine_eventfd(mr_machine *machine, unsigned value, int flags);

/*
 * Files and directories. Paths begin at the root, with or without a slash; there are no symbolic links.
 *
 * The disk is sure to have only what was synced: fsync of a file stores its bytes and size, fsync of a directory the
 * names in it. After a crash any part of the rest may be there.
 *
 * `flags` of open: O_RDONLY, O_WRONLY or O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY. A file with a name
 * exists without descriptors too.
 */
int mr_machine_open(mr_machine *machine, const char *path, int flags);
int mr_machine_open_with(mr_machine *machine, const char *path, int flags, uint32_t permissions);
int mr_machine_unlink(mr_machine *machine, const char *path);
int mr_machine_mkdir(mr_machine *machine, const char *path, uint32_t permissions);
int mr_machine_rmdir(mr_machine *machine, const char *path);
/* Flags of rename: those of Linux's renameat2. */
enum { MR_MACHINE_NO_REPLACE = 1, MR_MACHINE_EXCHANGE = 2 };
int mr_machine_rename(mr_machine *machine, const char *from, const char *to, unsigned flags);
int mr_machine_link(mr_machine *machine, const char *from, const char *to);
int mr_machine_chmod(mr_machine *machine, const char *path, uint32_t permissions);
int mr_machine_fchmod(mr_machine *machine, int descriptor, uint32_t permissions);
int mr_machine_set_modified(mr_machine *machine, const char *path, uint64_t time_ns);

typedef struct mr_machine_status {
    uint64_t number; /* the inode number; no other file has it */
    uint64_t size;
    uint64_t modified_ns;
    uint32_t names, permissions; /* `names`: hard links */
    bool is_directory;
} mr_machine_status;
int mr_machine_stat(mr_machine *machine, const char *path, mr_machine_status *status);
int mr_machine_fstat(mr_machine *machine, int descriptor, mr_machine_status *status);

enum { MR_MACHINE_NAME_BYTES = 256 };
/* Copies the name with this index in a directory. Returns 1, 0 if there is no such name, or a negative errno. */
int mr_machine_list(mr_machine *machine, const char *path, size_t index, char name[MR_MACHINE_NAME_BYTES],
                    bool *is_directory);
int mr_machine_truncate(mr_machine *machine, int descriptor, uint64_t size);
/* Counts a call on files as an operation, before the call. Returns 0 or the error of a fault; *delay_ns is the length
 * of a delay, or 0. */
int mr_machine_file_call(mr_machine *machine, uint64_t *delay_ns);

/* Makes the power fail at the `calls`-th call on files from now on (1: the next one; 0: not at all). That call, which
 * may still have its effect, and all later ones fail with EIO. */
void mr_machine_fail_power_after(mr_machine *machine, uint64_t calls);
bool mr_machine_has_power(mr_machine *machine);
/* Makes the power fail now, unless it already has, and come back. The seed chooses what the crash leaves on the disk.
 * Every later call on a file that was open fails with EIO. */
void mr_machine_crash(mr_machine *machine);

/* Opens a new, empty file without a name, as O_TMPFILE does. */
int mr_machine_file(mr_machine *machine);
/* pwrite to a nearly full disk writes as many bytes as fit. */
ssize_t mr_machine_pread(mr_machine *machine, int descriptor, void *buffer, size_t size, uint64_t offset);
ssize_t mr_machine_pwrite(mr_machine *machine, int descriptor, const void *data, size_t size, uint64_t offset);
int mr_machine_fsync(mr_machine *machine, int descriptor);
int64_t mr_machine_size(mr_machine *machine, int descriptor);
off_t mr_machine_seek(mr_machine *machine, int descriptor, off_t offset, int whence);

int mr_machine_close(mr_machine *machine, int descriptor);
int mr_machine_dup3(mr_machine *machine, int descriptor, int number, int flags);
/* F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC. */
int mr_machine_fcntl(mr_machine *machine, int descriptor, int command, int argument);

/* The limit of descriptor numbers, as RLIMIT_NOFILE: EMFILE from there on. */
int mr_machine_limit(mr_machine *machine);
void mr_machine_set_limit(mr_machine *machine, int limit);

#ifdef __cplusplus
}
#endif

#endif
