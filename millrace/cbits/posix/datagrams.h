/*
 * datagrams.h: several datagrams in one call, datagrams that the kernel cuts and joins, and multicast. Linux only.
 *
 * The calls do not wait, and fail as POSIX's do: with -1 and errno. A simulated socket refuses them all (EOPNOTSUPP).
 * Must not know: GHC, loops.
 */
#ifndef MILLRACE_DATAGRAMS_H
#define MILLRACE_DATAGRAMS_H

#include <stdint.h>
#include <sys/socket.h>

enum { MRH_BATCH = 64 }; /* datagrams in one call */

typedef struct mrh_outgoing {
    const void *bytes;
    size_t size;
    const struct sockaddr *address; /* NULL: to the socket's peer */
    socklen_t address_length;
} mrh_outgoing;

typedef struct mrh_incoming {
    struct sockaddr_storage address;
    uint32_t address_length; /* 0: the sender has no name */
    uint32_t size;
    uint32_t segment; /* the kernel joined datagrams of this size; 0: one datagram */
} mrh_incoming;

/* Whether it is a socket of a simulated machine. */
int mrh_is_simulated_socket(int descriptor);

/* Sends at most MRH_BATCH datagrams, and returns how many the kernel took. */
int64_t mrh_send_batch(int descriptor, const mrh_outgoing *datagrams, unsigned count);
/* Receives at most MRH_BATCH datagrams of at most `size` bytes, one behind the other in `bytes`; returns how many. */
int64_t mrh_receive_batch(int descriptor, unsigned char *bytes, size_t size, mrh_incoming *datagrams, unsigned count);

/* Sends bytes that the kernel cuts into datagrams of `segment` bytes (UDP_SEGMENT). */
int64_t mrh_send_segments(int descriptor, const mrh_outgoing *whole, uint16_t segment);
/* Whether the kernel joins datagrams that arrive together (UDP_GRO). */
int mrh_set_joining(int descriptor, int is_on);

/* Joins or leaves a multicast group. The interface is a number; with 0 the kernel chooses. Without a source (NULL), datagrams
 * of all senders arrive. */
int mrh_join_group(int descriptor, uint32_t interface, const struct sockaddr *group, socklen_t group_length,
                   const struct sockaddr *source, socklen_t source_length);
int mrh_leave_group(int descriptor, uint32_t interface, const struct sockaddr *group, socklen_t group_length,
                    const struct sockaddr *source, socklen_t source_length);

/* How the socket sends to groups: on which interface; past how many routers; and whether this machine receives it, too. */
typedef enum mrh_sending { MRH_SENDING_INTERFACE, MRH_SENDING_HOPS, MRH_SENDING_LOOPBACK } mrh_sending;
int mrh_set_sending(int descriptor, int what, int value);
/* Not for MRH_SENDING_INTERFACE. */
int mrh_get_sending(int descriptor, int what);

#endif
