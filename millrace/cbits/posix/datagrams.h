/*
 * datagrams.h: several datagrams in one call, segmentation and reassembly by the kernel (GSO, GRO), and multicast.
 * Linux only.
 *
 * No function waits. All fail as POSIX functions do: with -1 and errno; on a simulated socket always with EOPNOTSUPP.
 * Must not know: GHC, loops.
 */
#ifndef MILLRACE_DATAGRAMS_H
#define MILLRACE_DATAGRAMS_H

#include <stdint.h>
#include <sys/socket.h>

enum { MRH_BATCH = 64 }; /* the largest number of datagrams in one call */

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
    uint32_t segment; /* the kernel joined datagrams of this size; 0: it is one datagram */
} mrh_incoming;

/* 1 if the descriptor is a socket of a simulated machine, else 0. */
int mrh_is_simulated_socket(int descriptor);

/* Sends at most MRH_BATCH datagrams. Returns how many the kernel accepted. */
int64_t mrh_send_batch(int descriptor, const mrh_outgoing *datagrams, unsigned count);
/* Receives at most MRH_BATCH datagrams of at most `size` bytes each; datagram i begins at bytes + i * size. Returns how
 * many it received. */
int64_t mrh_receive_batch(int descriptor, unsigned char *bytes, size_t size, mrh_incoming *datagrams, unsigned count);

/* Sends bytes that the kernel cuts into datagrams of `segment` bytes (UDP_SEGMENT). Returns the number of bytes. */
int64_t mrh_send_segments(int descriptor, const mrh_outgoing *whole, uint16_t segment);
/* Sets whether the kernel joins datagrams that arrive together (UDP_GRO). */
int mrh_set_gro(int descriptor, int is_on);

/* Join or leave a multicast group. `interface` is an interface's number; with 0 the kernel chooses one. If `source` is
 * NULL, the socket receives from all senders. */
int mrh_join_group(int descriptor, uint32_t interface, const struct sockaddr *group, socklen_t group_length,
                   const struct sockaddr *source, socklen_t source_length);
int mrh_leave_group(int descriptor, uint32_t interface, const struct sockaddr *group, socklen_t group_length,
                    const struct sockaddr *source, socklen_t source_length);

/* How a socket sends to multicast groups: on which interface, past how many routers, and whether this machine receives
 * it too. */
typedef enum mrh_multicast_option {
    MRH_MULTICAST_INTERFACE,
    MRH_MULTICAST_HOPS,
    MRH_MULTICAST_LOOPBACK
} mrh_multicast_option;
int mrh_set_multicast_option(int descriptor, int what, int value);
/* Not for MRH_MULTICAST_INTERFACE. */
int mrh_get_multicast_option(int descriptor, int what);

#endif
