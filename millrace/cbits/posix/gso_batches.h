/*
 * gso_batches.h: batches of UDP datagrams of one size between two addresses, which the kernel cuts (GSO) and joins
 * (GRO), with their ECN bits. Linux only.
 *
 * No function waits. All fail as POSIX functions do: with -1 and errno; on a simulated socket always with EOPNOTSUPP.
 * Must not know: GHC, loops.
 */
#ifndef MILLRACE_GSO_BATCHES_H
#define MILLRACE_GSO_BATCHES_H

#include <netinet/in.h>
#include <stdint.h>

enum {
    MRH_GSO_BATCHES = 64, /* the largest number of batches in one call */
    /* The distance between the bytes of received batches. The kernel joins up to 64 KiB. With a power of two, the
     * beginnings of all batches would share a few cache lines. */
    MRH_GSO_STRIDE = 65536 + 1600
};

typedef union mrh_internet {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} mrh_internet;

typedef struct mrh_gso_batch {
    mrh_internet peer, local; /* the local port is ignored; received batches have 0 */
    uint32_t peer_length;
    uint32_t local_length; /* 0: unknown; when sending, the kernel chooses the address */
    const void *bytes;     /* to send */
    uint32_t size;
    uint32_t segment; /* the size of each datagram, but the last one may be shorter */
    uint32_t ecn;     /* the two ECN bits */
} mrh_gso_batch;

/* Sends at most MRH_GSO_BATCHES batches, each as one message that the kernel cuts. Returns how many the kernel
 * accepted. */
int64_t mrh_send_gso_batches(int descriptor, const mrh_gso_batch *batches, unsigned count);

/* Receives at most MRH_GSO_BATCHES batches. The bytes of batch i begin at bytes + i * MRH_GSO_STRIDE. Returns how many
 * batches it received. */
int64_t mrh_receive_gso_batches(int descriptor, unsigned char *bytes, mrh_gso_batch *batches, unsigned count);

/* Set whether the kernel reports the ECN bits, and the local address, of received datagrams. */
int mrh_report_ecn(int descriptor, int is_on);
int mrh_report_local(int descriptor, int is_on);

#endif
