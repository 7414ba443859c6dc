/*
 * machine.h: internal to a simulated machine, for the files of machine/ and backend/sim/.
 *
 * machine.c has the clock, the events to come and the random numbers; descriptor_table.c the file of each descriptor
 * number; file.c what all kinds of files have in common; socket.c and socket_calls.c connections; stream.c their bytes;
 * datagram.c datagrams; socket_name.c addresses; disk.c calls on files; inode.c the bytes of files; directory.c their
 * names; crash.c what a power failure leaves. A file that changes notifies its watchers. Everything happens under the
 * machine's lock. Must not know: loops, backends.
 */
#ifndef MILLRACE_MACHINE_INSIDES_H
#define MILLRACE_MACHINE_INSIDES_H

#include "millrace_machine.h"

#include "../timer.h"
#include "../units.h"

#include <netinet/in.h>
#include <pthread.h>

#ifndef SOCK_NONBLOCK /* macOS has no such flags: there only the core's own accept asks a machine for them */
#define SOCK_NONBLOCK 0x20000000
#define SOCK_CLOEXEC  0x10000000
#endif

/* ------------------------------------------------------------------------------------------------------- files --- */

typedef enum mr_file_kind { MR_FILE_SOCKET, MR_FILE_EVENT, MR_FILE_DISK } mr_file_kind;

/* Watches a file for changes, for a loop and one descriptor number. */
typedef struct mr_watch {
    struct mr_watch *next;      /* on the same file */
    struct mr_watcher *watcher; /* NULL: removed, but still among the events of a watcher */
    int number;
    bool is_reported;
} mr_watch;

/* The changes and due operations that a loop must handle at its next poll. */
typedef struct mr_watcher {
    mr_watch **events; /* watches whose file has changed */
    size_t count, capacity;
    mr_token *due; /* operations whose delay is over */
    size_t due_count, due_capacity;
    bool woken;
} mr_watcher;

/* An open file description. */
typedef struct mr_file {
    mr_watch *watches;
    uint32_t references; /* descriptor numbers */
    uint8_t kind;
    bool is_non_blocking;
} mr_file;

/* A counter as that of eventfd(2). */
typedef struct mr_event_file {
    mr_file file;
    uint64_t value;
} mr_event_file;

/* A write or resize that the disk does not have yet. */
typedef struct mr_change {
    struct mr_change *next;
    uint64_t offset; /* of the bytes; the new size if it is a resize */
    size_t count;
    bool is_resize;
    unsigned char bytes[];
} mr_change;

/* An array of bytes. Those beyond the size are zeros. */
typedef struct mr_extent {
    unsigned char *bytes;
    size_t size, capacity;
} mr_extent;

/* A file that a name has meant for a while. */
typedef struct mr_binding {
    struct mr_binding *next;
    struct mr_inode *inode; /* NULL: nothing */
} mr_binding;

/* A name in a directory: the file it means now, the one it means on the disk, and those it has meant since the last
 * sync. */
typedef struct mr_entry {
    struct mr_entry *next;
    struct mr_inode *now, *stored;  /* NULL: nothing */
    mr_binding *since, *last_since; /* the last one is `now`; none: the same as on the disk */
    char name[];
} mr_entry;

/* A file or directory on the disk. */
typedef struct mr_inode {
    uint64_t number;
    uint32_t references; /* by open files, and by each binding of a directory entry */
    uint32_t names, opens;
    uint32_t permissions, stored_permissions;
    uint64_t modified_ns;
    bool is_directory;
    uint64_t crash; /* the number of the last crash that was applied to it */
    /* a file */
    mr_extent now, stored;
    mr_change *changes, *last_change;
    size_t changed_bytes;
    /* a directory */
    mr_entry *entries;
    struct mr_inode *parent;
    unsigned changed_names;
} mr_inode;

typedef struct mr_disk_file {
    mr_file file;
    mr_inode *inode; /* NULL: it was open when the power failed */
    uint64_t position;
    bool can_read, can_write, appends;
} mr_disk_file;

/* ----------------------------------------------------------------------------------------------------- streams --- */

typedef enum mr_segment_kind { MR_SEGMENT_DATA, MR_SEGMENT_END, MR_SEGMENT_RESET } mr_segment_kind;

/* A segment on the link: bytes, the end of the stream, or a reset. */
typedef struct mr_segment {
    struct mr_segment *next;
    uint64_t arrival_ns;
    uint32_t size;
    mr_segment_kind kind;
} mr_segment;

/* One direction of a connection, owned by the receiver. Its ring buffer is allocated only while it holds bytes. */
typedef struct mr_stream {
    unsigned char *bytes;
    mr_segment *on_its_way, *last_on_its_way;
    uint64_t link_free_ns; /* when the link has sent all earlier segments */
    uint64_t last_arrival_ns;
    uint32_t size, first, used;
    uint32_t arrived; /* the part of `used` that has arrived */
    uint32_t capacity;
    uint32_t urgent_at; /* bytes before urgent data, plus 1; 0: none */
    bool has_ended;
} mr_stream;

/* The number of bytes that can be appended. */
uint32_t mr_stream_free_space(const mr_stream *stream);
/* Appends bytes that have not arrived yet. Returns false without memory. */
bool mr_stream_append(mr_stream *stream, const unsigned char *bytes, uint32_t size);
/* Removes up to `size` bytes that have arrived. Returns their number. */
uint32_t mr_stream_take(mr_stream *stream, unsigned char *buffer, uint32_t size);
void mr_stream_clear(mr_stream *stream);

/* ----------------------------------------------------------------------------------------------------- sockets --- */

/* A compact socket address. */
typedef struct mr_socket_name {
    sa_family_t family; /* AF_UNSPEC: none */
    in_port_t port;     /* in network order */
    uint8_t path_length;
    unsigned char ip[16];
    char *path;
} mr_socket_name;

bool mr_is_internet(sa_family_t family);
/* Converts a socket address. Returns 0, -EINVAL, -EAFNOSUPPORT or -ENOMEM. If 0, free the name later. */
int mr_socket_name_from(const struct sockaddr *address, socklen_t length, mr_socket_name *name);
void mr_socket_name_free(mr_socket_name *name);
int mr_socket_name_copy(const mr_socket_name *from, mr_socket_name *to);
void mr_socket_name_to_address(const mr_socket_name *name, sa_family_t family, struct sockaddr *address,
                               socklen_t *length);
bool mr_socket_name_is_any(const mr_socket_name *name);
/* True if a datagram or connection to `wanted` reaches a socket bound to `bound`. */
bool mr_socket_name_reaches(const mr_socket_name *wanted, const mr_socket_name *bound);
/* Sets the IPv4 address, in the form of the name's family. */
void mr_socket_name_set_host(mr_socket_name *name, uint32_t host);

/* A message between sockets of type SOCK_DGRAM. */
typedef struct mr_datagram {
    struct mr_datagram *next;
    mr_socket_name source;
    uint32_t size;
    unsigned char bytes[];
} mr_datagram;

typedef enum mr_socket_state {
    MR_SOCKET_FRESH,
    MR_SOCKET_LISTENING,
    MR_SOCKET_CONNECTING,
    MR_SOCKET_CONNECTED
} mr_socket_state;

struct mr_socket;

typedef struct mr_socket_queue {
    struct mr_socket *first, *last;
    unsigned count;
} mr_socket_queue;

typedef struct mr_listener {
    mr_socket_queue accepted; /* established connections that were not accepted yet */
    mr_socket_queue waiting;  /* clients that wait because the queue is full */
    unsigned limit;
} mr_listener;

typedef struct mr_socket {
    mr_file file;
    struct mr_socket *peer;   /* the other end; NULL: closed, or never connected */
    struct mr_socket *queued; /* successor in a listener's queue */
    struct mr_socket *next_bound;
    struct mr_socket *target; /* CONNECTING: the listener in whose queue it waits */
    mr_listener *listener;
    mr_stream incoming;
    mr_datagram *datagrams, *last_datagram; /* those that have arrived */
    mr_socket_name local, remote;
    int error;       /* to be returned once */
    uint32_t events; /* the number of scheduled events for this socket */
    uint8_t state;
    uint8_t family;
    uint8_t type;
    bool is_pipe_reader, is_pipe_writer;
    bool cannot_receive, cannot_send;
    bool resets_at_close;      /* SO_LINGER with a time of 0 */
    bool shares_port;          /* SO_REUSEPORT */
    bool has_reported_success; /* a connect has returned its success */
    bool is_bound;
    bool is_gone; /* closed; freed with its last scheduled event */
} mr_socket;

/* ----------------------------------------------------------------------------------------------------- machine --- */

typedef enum mr_event_kind {
    MR_EVENT_ARRIVAL,   /* the first segment on its way to a socket arrives */
    MR_EVENT_DATAGRAM,  /* a datagram arrives */
    MR_EVENT_CONNECT,   /* a connection attempt has reached its listener and its answer the client */
    MR_EVENT_COMPLETION /* a delayed operation, or one that was cancelled late, ends */
} mr_event_kind;

typedef struct mr_event {
    uint64_t time_ns;
    uint64_t serial; /* of two events at the same time, the one scheduled first happens first */
    mr_event_kind kind;
    mr_socket *socket;
    mr_datagram *datagram;
    mr_loop *loop;
    mr_token token;
} mr_event;

struct mr_machine {
    pthread_mutex_t lock; /* recursive */
    pthread_cond_t changed;
    mr_machine_plan plan;
    mr_planned_fault *planned;
    size_t next_planned;
    uint64_t random; /* the state of the generator */
    mr_machine_state state;

    uint64_t now_ns;
    bool keeps_real_time;
    uint64_t real_offset_ns; /* real time minus the machine's */
    mr_event *events;        /* a heap, the next one first */
    size_t event_count, event_capacity;
    uint64_t next_serial;
    uint64_t changes; /* of any file, so far */

    mr_file **files; /* by descriptor number */
    int file_count;  /* higher numbers were never used */
    int file_capacity;
    int *free_numbers; /* a heap, the lowest first */
    size_t free_count, free_capacity;
    int limit;

    mr_inode *root;
    uint64_t next_inode; /* the number of the next file */
    uint64_t crashes;
    uint64_t calls_until_failure; /* of power, in calls on files; 0: it does not fail */
    bool has_no_power;
    mr_socket *bound; /* sockets with a local name */
    in_port_t next_port;
    uint32_t next_host;
    unsigned next_abstract;

    char *trace;
    size_t trace_length, trace_capacity;
};

void mr_machine_lock(mr_machine *machine);
void mr_machine_unlock(mr_machine *machine);

/* Draws a random number below `bound`, which is not 0. The machine is locked. */
uint64_t mr_machine_draw(mr_machine *machine, uint64_t bound);

/* Counts an operation and draws its fault. `applicable` is a set of bits 1 << fault. */
mr_fault mr_machine_next_fault(mr_machine *machine, unsigned applicable);
uint64_t mr_machine_delay_ns(mr_machine *machine);

void mr_machine_schedule(mr_machine *machine, uint64_t time_ns, mr_event what);
/* Handles the events that are due. */
void mr_machine_catch_up(mr_machine *machine);
/* mr_machine_advance, for a caller that has locked the machine once. */
int mr_machine_advance_locked(mr_machine *machine, uint64_t until_ns);
/* Drops the events of a loop. */
void mr_machine_forget_loop(mr_machine *machine, const mr_loop *loop);

#define MR_TRACE(machine, ...)                     \
    do {                                           \
        if ((machine)->plan.traces)                \
            mr_machine_note(machine, __VA_ARGS__); \
    } while (0)

/* backend/sim/sim.c: records that an operation is due. */
void mr_sim_note_due(const mr_event *what);

#endif
