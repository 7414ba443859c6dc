/*
 * trains.h: datagrams of one size between the same two addresses, with what their IP headers say. Linux only.
 *
 * The calls do not wait, and fail as POSIX's do: with -1 and errno. A simulated socket refuses them all (EOPNOTSUPP).
 * Must not know: GHC, loops.
 */
#ifndef MILLRACE_TRAINS_H
#define MILLRACE_TRAINS_H

#include <netinet/in.h>
#include <stdint.h>

enum {
    MRH_TRAINS = 64, /* in one call */
    /* How far apart the bytes of received trains are. The kernel joins up to 64 KiB. With a power of two, the beginnings of all
     * would share a few lines of the processor's cache. */
    MRH_TRAIN_STRIDE = 65536 + 1600
};

typedef union mrh_internet {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} mrh_internet;

typedef struct mrh_train {
    mrh_internet peer, local; /* the port of the local address is 0, and ignored */
    uint32_t peer_length;
    uint32_t local_length; /* 0: not known; the kernel chooses the address from which it sends */
    const void *bytes;     /* to send */
    uint32_t size;
    uint32_t segment; /* the size of each datagram, but the last one may be shorter */
    uint32_t mark;    /* the two bits of ECN */
} mrh_train;

/* Sends at most MRH_TRAINS trains, each as one message that the kernel cuts, and returns how many it took. */
int64_t mrh_send_trains(int descriptor, const mrh_train *trains, unsigned count);

/* Receives at most MRH_TRAINS trains. The bytes of each are MRH_TRAIN_STRIDE behind those of the one before. Returns how many. */
int64_t mrh_receive_trains(int descriptor, unsigned char *bytes, mrh_train *trains, unsigned count);

/* Whether the kernel says the mark, and the local address, of received datagrams. */
int mrh_report_marks(int descriptor, int is_on);
int mrh_report_local(int descriptor, int is_on);

#endif
