/*
 * passing.h: what Unix sockets pass beside bytes, descriptors and credentials; and connections that begin with bytes. Linux only.
 *
 * The calls do not wait, and fail as POSIX's do: with -1 and errno. A simulated socket refuses them all (EOPNOTSUPP).
 * Must not know: GHC, loops.
 */
#ifndef MILLRACE_PASSING_H
#define MILLRACE_PASSING_H

#include <stdint.h>
#include <sys/socket.h>

enum { MRH_PASSED_MOST = 253 }; /* descriptors beside one message (SCM_MAX_FD) */

typedef struct mrh_credentials {
    uint32_t process, user, group;
} mrh_credentials;

/* Sends bytes with `count` descriptors, at most MRH_PASSED_MOST, and with credentials unless they are NULL. */
int64_t mrh_send_passing(int descriptor, const void *bytes, size_t size, const int *passed, unsigned count,
                         const mrh_credentials *credentials);

/* What was received beside the bytes. */
typedef struct mrh_arrived {
    uint32_t count;     /* of the descriptors */
    uint32_t is_partly; /* descriptors were lost, because this process has too many */
    uint32_t has_credentials;
    mrh_credentials credentials;
    int passed[MRH_PASSED_MOST]; /* exec closes them */
} mrh_arrived;

int64_t mrh_receive_passing(int descriptor, void *bytes, size_t size, mrh_arrived *arrived);

/* Begins a connection with a packet that carries bytes already (TCP fast open). Returns how many the kernel took; EINPROGRESS if
 * it took none, because it does not know the peer's cookie yet: the connection is then begun without them. */
int64_t mrh_connect_with(int descriptor, const void *bytes, size_t size, const struct sockaddr *address,
                         socklen_t length);

#endif
