/*
 * machine.h: the insides of a simulated machine, for the files of machine/ and for backend/sim/.
 *
 * machine.c keeps the time, the events to come and the chances; numbers.c, which file a descriptor number means;
 * stream.c, bytes on their way; datagram.c, messages; name.c, addresses; socket.c and socket_calls.c, connections; disk.c, open
 * files; contents.c, what files hold; directory.c, their names; crash.c, what is left when the power fails; object.c, what all have in common. A file that changes tells its watchers. Everything happens under the machine's
 * lock. Must not know: loops, backends.
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

typedef enum mr_file_kind { MR_FILE_SOCKET, MR_FILE_EVENT, MR_FILE_BYTES } mr_file_kind;

/* An observer of changes to a file: a loop, for one descriptor number. */
typedef struct mr_watch {
    struct mr_watch *next;      /* on the same file */
    struct mr_watcher *watcher; /* NULL: nobody any more; it is still on a list of reports */
    int number;
    bool is_reported;
} mr_watch;

/* What a loop has to look at. */
typedef struct mr_watcher {
    mr_watch **events;
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

/* A counter, as eventfd(2) has it. */
typedef struct mr_event_file {
    mr_file file;
    uint64_t value;
} mr_event_file;

/* A write or a change of size that the disk does not have yet. */
typedef struct mr_change {
    struct mr_change *next;
    uint64_t offset; /* of the bytes; the new size if it is a resize */
    size_t count;
    bool is_resize;
    unsigned char bytes[];
} mr_change;

/* Bytes, of which those beyond the size are zeros. */
typedef struct mr_extent {
    unsigned char *bytes;
    size_t size, capacity;
} mr_extent;

/* What a name meant for a while. */
typedef struct mr_meaning {
    struct mr_meaning *next;
    struct mr_contents *contents; /* NULL: nothing */
} mr_meaning;

/* A name in a directory: what it means, what it means on the disk, and what it has meant since. */
typedef struct mr_entry {
    struct mr_entry *next;
    struct mr_contents *now, *stored; /* NULL: nothing */
    mr_meaning *since, *last_since;   /* the last one is `now`; none: the disk has it */
    char name[];
} mr_entry;

/* A file or a directory on the disk. */
typedef struct mr_contents {
    uint64_t number;
    uint32_t references; /* by open files, and by entries: each of their meanings */
    uint32_t names, opens;
    uint32_t permissions, stored_permissions;
    uint64_t modified_ns;
    bool is_directory;
    uint64_t crash; /* the last one that it has lived through */
    /* a file */
    mr_extent now, stored;
    mr_change *changes, *last_change;
    size_t changed_bytes;
    /* a directory */
    mr_entry *entries;
    struct mr_contents *parent;
    unsigned changed_names;
} mr_contents;

typedef struct mr_bytes_file {
    mr_file file;
    mr_contents *contents; /* NULL: it was open when the power failed */
    uint64_t position;
    bool can_read, can_write, appends;
} mr_bytes_file;

/* ----------------------------------------------------------------------------------------------------- streams --- */

typedef enum mr_segment_kind { MR_SEGMENT_DATA, MR_SEGMENT_END, MR_SEGMENT_RESET } mr_segment_kind;

/* Something on its way. */
typedef struct mr_segment {
    struct mr_segment *next;
    uint64_t arrival_ns;
    uint32_t size;
    mr_segment_kind kind;
} mr_segment;

/* One direction of a connection; it belongs to the receiver. A ring that is there only while it holds bytes. */
typedef struct mr_stream {
    unsigned char *bytes;
    mr_segment *on_its_way, *last_on_its_way;
    uint64_t link_free_ns; /* when the link has sent what it was given */
    uint64_t last_arrival_ns;
    uint32_t size, first, used;
    uint32_t arrived; /* of those used */
    uint32_t capacity;
    uint32_t urgent_at; /* bytes before urgent data, plus 1; 0: none */
    bool has_ended;
} mr_stream;

uint32_t mr_stream_room(const mr_stream *stream);
/* Appends bytes, which have not arrived yet. False without memory. */
bool mr_stream_append(mr_stream *stream, const unsigned char *bytes, uint32_t size);
/* Takes up to `size` bytes that have arrived. */
uint32_t mr_stream_take(mr_stream *stream, unsigned char *buffer, uint32_t size);
void mr_stream_clear(mr_stream *stream);

/* ----------------------------------------------------------------------------------------------------- sockets --- */

/* A compact socket address. */
typedef struct mr_name {
    sa_family_t family; /* AF_UNSPEC: none */
    in_port_t port;     /* in network order */
    uint8_t path_length;
    unsigned char ip[16];
    char *path;
} mr_name;

bool mr_is_internet(sa_family_t family);
/* 0, -EAFNOSUPPORT or -ENOMEM; to be freed if 0. */
int mr_name_from(const struct sockaddr *address, socklen_t length, mr_name *name);
void mr_name_free(mr_name *name);
int mr_name_copy(const mr_name *from, mr_name *to);
void mr_name_to_address(const mr_name *name, sa_family_t family, struct sockaddr *address, socklen_t *length);
bool mr_name_is_any(const mr_name *name);
/* Would what is sent to `wanted` reach a socket bound to `bound`? */
bool mr_name_reaches(const mr_name *wanted, const mr_name *bound);
/* An IPv4 address, in the family of the name. */
void mr_name_set_host(mr_name *name, uint32_t host);

/* A message between sockets of type SOCK_DGRAM. */
typedef struct mr_datagram {
    struct mr_datagram *next;
    mr_name source;
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
    mr_socket_queue accepted; /* connections that nobody has taken yet */
    mr_socket_queue waiting;  /* clients for whom there is no room */
    unsigned limit;
} mr_listener;

typedef struct mr_socket {
    mr_file file;
    struct mr_socket *peer;   /* the other end; NULL: gone, or there never was one */
    struct mr_socket *queued; /* successor in a listener's queue */
    struct mr_socket *next_bound;
    struct mr_socket *target; /* CONNECTING: the listener in whose queue it waits */
    mr_listener *listener;
    mr_stream incoming;
    mr_datagram *datagrams, *last_datagram; /* those that have arrived */
    mr_name local, remote;
    int error;       /* to be told once */
    uint32_t events; /* events to come that mean this socket */
    uint8_t state;
    uint8_t family;
    uint8_t type;
    bool is_pipe_reader, is_pipe_writer;
    bool cannot_receive, cannot_send;
    bool resets_at_close; /* SO_LINGER of no time */
    bool shares_port;     /* SO_REUSEPORT */
    bool has_told;        /* a connect has returned its success */
    bool is_bound;
    bool is_gone; /* closed; freed with the last event that means it */
} mr_socket;

/* ----------------------------------------------------------------------------------------------------- machine --- */

typedef enum mr_happening_kind {
    MR_HAPPENS_ARRIVAL,   /* the first segment on its way to a socket arrives */
    MR_HAPPENS_DATAGRAM,  /* a datagram arrives */
    MR_HAPPENS_CALL,      /* a connection attempt has gone to its listener and back */
    MR_HAPPENS_COMPLETION /* an operation that was delayed ends, or one that was cancelled notices */
} mr_happening_kind;

typedef struct mr_happening {
    uint64_t time_ns;
    uint64_t serial; /* of two at the same time, the first to be planned is the first to happen */
    mr_happening_kind kind;
    mr_socket *socket;
    mr_datagram *datagram;
    mr_loop *loop;
    mr_token token;
} mr_happening;

struct mr_machine {
    pthread_mutex_t lock; /* recursive */
    pthread_cond_t changed;
    mr_machine_plan plan;
    mr_planned_fault *planned;
    size_t next_planned;
    uint64_t random;
    mr_machine_state state;

    uint64_t now_ns;
    bool keeps_real_time;
    uint64_t real_offset_ns;  /* real time minus the machine's */
    mr_happening *happenings; /* a heap, the next one first */
    size_t happening_count, happening_capacity;
    uint64_t next_serial;
    uint64_t changes; /* of any file, so far */

    mr_file **files; /* by descriptor number */
    int file_count;  /* numbers from here on have never been used */
    int file_capacity;
    int *free_numbers; /* a heap, the lowest first */
    size_t free_count, free_capacity;
    int limit;

    mr_contents *root;
    uint64_t next_contents; /* the number of the next file */
    uint64_t crashes;
    uint64_t calls_until_failure; /* of power, in calls on files; 0: it does not fail */
    bool has_no_power;
    mr_socket *bound; /* sockets that somebody may connect to */
    in_port_t next_port;
    uint32_t next_host;
    unsigned next_abstract;

    char *trace;
    size_t trace_length, trace_capacity;
};

void mr_machine_lock(mr_machine *machine);
void mr_machine_unlock(mr_machine *machine);

/* The generator: a number below `bound`, which is not 0. */
uint64_t mr_machine_draw(mr_machine *machine, uint64_t bound);

/* Which fault the next operation meets; `applicable` is a set of bits 1 << fault. Counts the operation. */
mr_fault mr_machine_next_fault(mr_machine *machine, unsigned applicable);
uint64_t mr_machine_delay_ns(mr_machine *machine);

void mr_machine_plan_happening(mr_machine *machine, uint64_t time_ns, mr_happening what);
/* Lets happen what is due. */
void mr_machine_catch_up(mr_machine *machine);
/* mr_machine_advance for a caller that has locked the machine, once. */
int mr_machine_advance_locked(mr_machine *machine, uint64_t until_ns);
/* What was to happen to a loop will not. */
void mr_machine_forget_loop(mr_machine *machine, const mr_loop *loop);

#define MR_TRACE(machine, ...)                     \
    do {                                           \
        if ((machine)->plan.traces)                \
            mr_machine_note(machine, __VA_ARGS__); \
    } while (0)

/* numbers.c */
mr_file *mr_machine_find(mr_machine *machine, int number);
/* -EMFILE or 0, before something is made that needs a number. */
int mr_machine_check_room(mr_machine *machine);
/* The lowest free number, now meaning this file; -EMFILE or -ENOMEM, and then the file is unchanged. */
int mr_machine_install(mr_machine *machine, mr_file *file, int flags);
void mr_machine_free_numbers(mr_machine *machine);

/* object.c */
void mr_file_changed(mr_machine *machine, mr_file *file);
/* Tells the watcher of changes from here on, and once of what is. False without memory. */
bool mr_file_watch(mr_file *file, mr_watcher *watcher, int number);
void mr_file_unwatch(mr_file *file, mr_watcher *watcher, int number);
void mr_machine_unwatch_all(mr_machine *machine, mr_watcher *watcher);
/* The last number is gone. */
void mr_file_free(mr_machine *machine, mr_file *file);

/* contents.c: files, what the disk has of them, and what it does not have yet. */
mr_contents *mr_contents_new(mr_machine *machine, bool is_directory, uint32_t permissions);
void mr_contents_hold(mr_contents *contents);
/* Frees it after the last holder. NULL: nothing to do. */
void mr_contents_release(mr_machine *machine, mr_contents *contents);
/* Counts names and open files. Without any, a file takes no room. */
void mr_contents_use(mr_machine *machine, mr_contents *contents, int names, int opens);
size_t mr_contents_read(const mr_contents *contents, void *buffer, size_t size, uint64_t offset);
/* Writes as much as fits; -ENOSPC if nothing does (write(2)). */
ssize_t mr_contents_write(mr_machine *machine, mr_contents *contents, const void *data, size_t size, uint64_t offset);
/* 0 or -ENOSPC. */
int mr_contents_resize(mr_machine *machine, mr_contents *contents, uint64_t size);
/* The disk has all of it now. */
void mr_contents_sync(mr_contents *contents);
/* The disk will never have what it does not have now, although reads still find it: after an error, Linux forgets what
   was to be written. */
void mr_contents_forget_changes(mr_contents *contents);
/* What a crash leaves of it; `keeps` tells whether one thing that was not synced is kept. */
void mr_contents_crash(mr_machine *machine, mr_contents *contents, bool (*keeps)(mr_machine *machine));

/* directory.c: names. */
enum { MR_NAME_BYTES = MR_MACHINE_NAME_BYTES };

/* The directory of a path, and the last name in it. */
typedef struct mr_place {
    mr_contents *directory; /* NULL: the path is the root */
    char name[MR_NAME_BYTES];
} mr_place;

int mr_directory_find(mr_machine *machine, const char *path, mr_place *place);
/* What a place means now, or NULL. */
mr_contents *mr_directory_at(mr_machine *machine, const mr_place *place);
/* What a path means. NULL, and the error. */
mr_contents *mr_directory_look_up(mr_machine *machine, const char *path, int *error);
/* Gives a name another meaning; NULL for none. 0 or -ENOMEM. */
int mr_directory_set(mr_machine *machine, const mr_place *place, mr_contents *contents);
/* The disk has all names of it now. */
void mr_directory_sync(mr_machine *machine, mr_contents *directory);
void mr_directory_free_entries(mr_machine *machine, mr_contents *directory);

/* disk.c: a call on files begins. 0, or an error: there is no power, or it fails now. */
int mr_disk_begin(mr_machine *machine);
/* ... and ends, with its result unless the power has failed meanwhile. */
int64_t mr_disk_end(const mr_machine *machine, int64_t result);
/* A sync that fails. */
void mr_disk_fail_sync(mr_machine *machine, int number);
/* An open file, at its position. */
ssize_t mr_disk_read(mr_machine *machine, mr_bytes_file *file, void *buffer, size_t size);
ssize_t mr_disk_write(mr_machine *machine, mr_bytes_file *file, const void *data, size_t size);
void mr_disk_close(mr_machine *machine, mr_bytes_file *file);
/* The power has failed: from now on every call on it fails. */
void mr_disk_abandon(mr_machine *machine, mr_bytes_file *file);
/* The machine ends. */
void mr_disk_free(mr_machine *machine);

/* socket.c */
enum { MR_FIRST_PORT = 32768, MR_LAST_PORT = 60999 }; /* Linux's ip_local_port_range */
/* NULL without memory. */
mr_socket *mr_socket_new(const mr_machine *machine, int family, int type);
/* Makes two sockets the ends of one connection. */
void mr_socket_couple(mr_socket *a, mr_socket *b);
/* Drops a socket without descriptor numbers. It is freed after the last event for it. */
void mr_socket_discard(mr_machine *machine, mr_socket *socket);
/* A port that no client has had for a while. */
in_port_t mr_socket_next_port(mr_machine *machine);
int mr_socket_connect(mr_machine *machine, mr_socket *client, const struct sockaddr *address, socklen_t length);
/* The first of a queue, or NULL. */
mr_socket *mr_socket_take(mr_socket_queue *queue);
/* Clients that wait get the room that a listener's queue has now. */
void mr_socket_admit_waiting(mr_machine *machine, mr_socket *listener);
void mr_socket_happens(mr_machine *machine, const mr_happening *what);
void mr_socket_free(mr_machine *machine, mr_socket *socket);
int mr_socket_readable(const mr_socket *socket);
int mr_socket_writable(const mr_socket *socket);
ssize_t mr_socket_receive(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count);
/* `stall_ns`: how much longer than usual it takes. */
ssize_t mr_socket_send(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                       uint64_t stall_ns, bool is_urgent);
/* Both ends see a reset. */
void mr_socket_break(mr_machine *machine, mr_socket *socket);
int mr_socket_shutdown(mr_machine *machine, mr_socket *socket, int how);

size_t mr_total_length(const struct iovec *elements, size_t count);
/* When what is sent now to this stream's end will have come over the link. */
uint64_t mr_arrival_ns(mr_machine *machine, mr_stream *stream, uint32_t size);

/* socket_calls.c */
mr_socket *mr_socket_of(mr_machine *machine, int number, int *error);
/* Any port, unless it has one. */
int mr_socket_bind_anywhere(mr_machine *machine, mr_socket *socket);

/* datagram.c: sockets of type SOCK_DGRAM. `to`: NULL for the peer. */
int mr_datagram_connect(mr_machine *machine, mr_socket *socket, const struct sockaddr *address, socklen_t length);
ssize_t mr_datagram_send(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                         const mr_name *to);
ssize_t mr_datagram_receive(mr_machine *machine, mr_socket *socket, const struct iovec *elements, size_t count,
                            mr_name *from);
void mr_datagram_arrives(mr_machine *machine, mr_socket *socket, mr_datagram *datagram);
/* Frees those that have arrived. */
void mr_datagrams_drop(mr_machine *machine, mr_socket *socket);

/* sim.c */
void mr_sim_happens(const mr_happening *what);

#endif
