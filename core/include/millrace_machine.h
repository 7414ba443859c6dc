/*
 * millrace_machine.h: a simulated machine.
 *
 * What it is for: sockets, pipes, files and a clock that exist in memory only, so that a program runs the same way
 * every time, in no time, and meets the failures that a plan chooses. A group of loops may live on such a machine
 * (mr_machine_group); its operations then work on the machine's descriptors.
 * Must not know: loops.
 *
 * The calls are those of POSIX with the same names; they never block, and fail with a negative errno (-EAGAIN where
 * they would block). All of them may be made on any thread. Descriptor numbers begin at MR_MACHINE_FIRST, where no
 * kernel's do, so that a number tells which world it belongs to.
 *
 * The clock starts at one second and jumps: whenever a loop of the machine waits, the time is that of the next event.
 * What happens between two waits takes no time at all. Everything that is left to chance is drawn from one generator,
 * so a machine that is used by one thread does the same for the same seed.
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
 *  DELAY           what was done is reported later
 *  RESET           the connection is reset before the operation
 *  RESET_AFTER     ... and after it
 *  HALF_CLOSE      a send ends its direction first: the peer sees the end of the stream
 *  STALL           what a send sends arrives much later, and so does all that follows
 *  NO_DESCRIPTORS  EMFILE, for an accept, a new socket or an open file
 *  NO_BUFFERS      ENOBUFS, for an accept, a send or a new socket
 *  DISK_FULL       ENOSPC, for a WRITE_FILE, a SYNC_FILE (delayed allocation) or a file that is created
 *  LOSS            a datagram never arrives
 *  DUPLICATION     a datagram arrives twice
 *  OVERTAKEN       a datagram takes longer, and later ones may arrive before it
 *  INTERRUPTED     the first attempt is given up as if a signal had come
 *  LATE_CANCEL     a cancellation takes its time, and the operation may end well meanwhile
 *  IO_ERROR        EIO, for a READ_FILE, a WRITE_FILE, a SYNC_FILE or a call on files. After a sync, what was not on the disk never will be
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

/* A fault for the operation of this number (the machine's first operation is 1). */
typedef struct mr_planned_fault {
    uint64_t operation;
    mr_fault fault; /* ignored if it cannot happen to such an operation */
} mr_planned_fault;

/* Zero-initialise it. Then nothing fails, links have no latency, and only the seed matters. */
typedef struct mr_machine_plan {
    uint64_t seed;
    uint32_t per_million[MR_FAULT_COUNT]; /* of a million operations to which it can happen, so many have it */
    const mr_planned_fault *planned;      /* in ascending order of `operation`; additional to the random ones */
    size_t planned_count;
    uint64_t delay_max_ns;     /* the maximum of DELAY, OVERTAKEN and LATE_CANCEL; 0: 10 ms */
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

/* 0 or -ENOMEM. The plan is copied. */
int mr_machine_create(const mr_machine_plan *plan, mr_machine **machine);

/* Closes all descriptors and frees the machine. All groups on it must have been destroyed. */
void mr_machine_destroy(mr_machine *machine);

/* A group whose loops work on this machine. */
int mr_machine_group(mr_machine *machine, mr_group **group);

typedef struct mr_machine_state {
    uint64_t operations; /* operations so far: submitted to loops, sockets made, files opened,
                                  datagrams sent */
    uint64_t faults;     /* faults so far */
    uint64_t open_descriptors;
    uint64_t buffered_bytes; /* sent, and not received */
    uint64_t disk_bytes;     /* in files */
} mr_machine_state;

void mr_machine_inspect(mr_machine *machine, mr_machine_state *state);

/* The trace so far: one line per event, "seconds.nanoseconds text". Valid until the next call on the machine. */
const char *mr_machine_trace(mr_machine *machine, size_t *length);
/* Adds a line. */
void mr_machine_note(mr_machine *machine, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------------------------------------------------ time --- */

uint64_t mr_machine_now_ns(mr_machine *machine);

/*
 * Moves the clock to the machine's next event or to this time, whichever is first. Returns 1 if there may be something
 * to poll or the time has come. Returns 0 if nothing will ever happen by itself: `until_ns` is UINT64_MAX and there is
 * no future event.
 */
int mr_machine_advance(mr_machine *machine, uint64_t until_ns);

/* Does what waiting would do, without ever blocking. For the owner of a loop with nothing to poll. Returns 1 if it
 * should poll again, and 0 if nothing will ever happen by itself. [owner] */
int mr_machine_skip(mr_loop *loop);

/* A random number below `bound`, from the machine's generator. */
uint64_t mr_machine_chance(mr_machine *machine, uint64_t bound);

/* Closes everything that is open. */
void mr_machine_close_all(mr_machine *machine);

/* Lets this much time pass. */
void mr_machine_sleep(mr_machine *machine, uint64_t duration_ns);

/* From now on the clock follows real time, and waiting takes real time. For programs of several threads, where the
 * machine cannot know what other threads will do. */
void mr_machine_keep_real_time(mr_machine *machine);

/* For callers that block: returns after the next event on this machine, to which time jumps. -EDEADLK: there will be
 * none. */
int mr_machine_await(mr_machine *machine);

/* ---------------------------------------------------------------------------------------------- descriptors --- */

bool mr_machine_owns(int descriptor);

int mr_machine_socket(mr_machine *machine, int domain, int type, int protocol);
int mr_machine_socketpair(mr_machine *machine, int domain, int type, int protocol, int pair[2]);
int mr_machine_bind(mr_machine *machine, int descriptor, const struct sockaddr *address, socklen_t length);
int mr_machine_listen(mr_machine *machine, int descriptor, int backlog);
int mr_machine_connect(mr_machine *machine, int descriptor, const struct sockaddr *address, socklen_t length);
int mr_machine_accept(mr_machine *machine, int descriptor, struct sockaddr *address, socklen_t *length, int flags);
int mr_machine_getsockname(mr_machine *machine, int descriptor, struct sockaddr *address, socklen_t *length);
int mr_machine_getpeername(mr_machine *machine, int descriptor, struct sockaddr *address, socklen_t *length);
/* Options without a meaning here can be set, and are read as 0. */
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
/* For sockets of type SOCK_DGRAM. If the address is NULL, the socket's peer is used. A datagram that is longer than
 * the buffer is truncated. If the receiver has no room, a datagram is lost. Not for AF_UNIX. */
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
 * The disk has only what was synced: the bytes and the size of a file by an fsync of the file, a name by an fsync of its
 * directory. Of the rest, a crash may leave any part.
 *
 * `flags` of open: O_RDONLY, O_WRONLY or O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY. A file with a name exists
 * without descriptors too.
 */
int mr_machine_open(mr_machine *machine, const char *path, int flags);
int mr_machine_open_with(mr_machine *machine, const char *path, int flags, uint32_t permissions);
int mr_machine_unlink(mr_machine *machine, const char *path);
int mr_machine_mkdir(mr_machine *machine, const char *path, uint32_t permissions);
int mr_machine_rmdir(mr_machine *machine, const char *path);
/* The flags are those of Linux' renameat2. */
enum { MR_MACHINE_NO_REPLACE = 1, MR_MACHINE_EXCHANGE = 2 };
int mr_machine_rename(mr_machine *machine, const char *from, const char *to, unsigned flags);
int mr_machine_link(mr_machine *machine, const char *from, const char *to);
int mr_machine_chmod(mr_machine *machine, const char *path, uint32_t permissions);
int mr_machine_fchmod(mr_machine *machine, int descriptor, uint32_t permissions);
int mr_machine_set_modified(mr_machine *machine, const char *path, uint64_t time_ns);

typedef struct mr_machine_status {
    uint64_t number; /* of the file; no other has it */
    uint64_t size;
    uint64_t modified_ns;
    uint32_t names, permissions;
    bool is_directory;
} mr_machine_status;
int mr_machine_stat(mr_machine *machine, const char *path, mr_machine_status *status);
int mr_machine_fstat(mr_machine *machine, int descriptor, mr_machine_status *status);

enum { MR_MACHINE_NAME_BYTES = 256 };
/* The name with this index in a directory: 1, or 0 if there is none. */
int mr_machine_list(mr_machine *machine, const char *path, size_t index, char name[MR_MACHINE_NAME_BYTES],
                    bool *is_directory);
int mr_machine_truncate(mr_machine *machine, int descriptor, uint64_t size);
/* Counts a call on files as an operation, before it is made, which may meet a fault: an error, or a delay. */
int mr_machine_file_call(mr_machine *machine, uint64_t *delay_ns);

/* The power fails at this call on files from now on (1: the next one); 0: it does not. That call, which may still have
 * its effect, and all after it fail with EIO. */
void mr_machine_fail_power_after(mr_machine *machine, uint64_t calls);
bool mr_machine_has_power(mr_machine *machine);
/* The power fails now, unless it has, and comes back: the disk has what a crash leaves, chosen by the seed. Every call
 * on a file that was open fails with EIO from now on. */
void mr_machine_crash(mr_machine *machine);

/* An empty file without a name. */
int mr_machine_file(mr_machine *machine);
/* A write to a nearly full disk writes as much as fits. */
ssize_t mr_machine_pread(mr_machine *machine, int descriptor, void *buffer, size_t size, uint64_t offset);
ssize_t mr_machine_pwrite(mr_machine *machine, int descriptor, const void *data, size_t size, uint64_t offset);
int mr_machine_fsync(mr_machine *machine, int descriptor);
int64_t mr_machine_size(mr_machine *machine, int descriptor);
off_t mr_machine_seek(mr_machine *machine, int descriptor, off_t offset, int whence);

int mr_machine_close(mr_machine *machine, int descriptor);
int mr_machine_dup3(mr_machine *machine, int descriptor, int number, int flags);
/* F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC. */
int mr_machine_fcntl(mr_machine *machine, int descriptor, int command, int argument);

/* The limit of descriptor numbers before EMFILE, as RLIMIT_NOFILE. */
int mr_machine_limit(mr_machine *machine);
void mr_machine_set_limit(mr_machine *machine, int limit);

#ifdef __cplusplus
}
#endif

#endif
