/*
 * passing.h: descriptors and credentials over Unix sockets; connections whose first packet has data. Linux only.
 *
 * No function waits. All fail as POSIX functions do: with -1 and errno; on a simulated socket always with EOPNOTSUPP.
 * Must not know: GHC, loops.
 */
#ifndef MILLRACE_PASSING_H
#define MILLRACE_PASSING_H

#include <stdint.h>
#include <sys/socket.h>

enum { MRH_PASSED_MAX = 253 }; /* the largest number of descriptors in one message (SCM_MAX_FD) */

typedef struct mrh_credentials {
    uint32_t process, user, group;
} mrh_credentials;

/* Sends bytes with `count` descriptors, at most MRH_PASSED_MAX, and with credentials unless they are NULL. Returns how
 * many bytes were sent. */
int64_t mrh_send_passing(int descriptor, const void *bytes, size_t size, const int *passed, unsigned count,
                         const mrh_credentials *credentials);

/* What a message had besides its bytes. */
typedef struct mrh_arrived {
    uint32_t count;        /* of the descriptors */
    uint32_t is_truncated; /* descriptors were lost, because this process has too many */
    uint32_t has_credentials;
    mrh_credentials credentials;
    int passed[MRH_PASSED_MAX]; /* exec closes them */
} mrh_arrived;

/* Receives a message, its descriptors and its credentials. Returns how many bytes it received. */
int64_t mrh_receive_passing(int descriptor, void *bytes, size_t size, mrh_arrived *arrived);

/* Begins a connection whose first packet has data (TCP fast open). Returns how many bytes the kernel accepted.
 * EINPROGRESS: it accepted none, because it does not know the peer's cookie yet, and begins the connection without
 * them. */
int64_t mrh_connect_with(int descriptor, const void *bytes, size_t size, const struct sockaddr *address,
                         socklen_t length);

#endif
