/* passing.c: see passing.h. */
#include "passing.h"

#include "simulation.h"

#include <errno.h>
#include <string.h>

/* A control buffer for all descriptors and credentials of a message, and for a label and a time that the program may
 * have requested (SO_PASSSEC, SO_TIMESTAMP). */
typedef union control_buffer {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * MRH_PASSED_MAX) + CMSG_SPACE(sizeof(struct ucred)) + 512];
} control_buffer;

static size_t put_control_message(char *to, int type, const void *data, size_t size)
{
    struct cmsghdr *header = (struct cmsghdr *)(void *)to;
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), data, size);
    return CMSG_SPACE(size);
}

int64_t mrh_send_passing(int descriptor, const void *bytes, size_t size, const int *passed, unsigned count,
                         const mrh_credentials *credentials)
{
    control_buffer control;
    struct iovec piece = {(void *)(uintptr_t)bytes, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    size_t used = 0;
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (count > MRH_PASSED_MAX) {
        errno = EINVAL;
        return -1;
    }
    memset(&control, 0, sizeof control);
    if (count > 0)
        used += put_control_message(control.bytes, SCM_RIGHTS, passed, count * sizeof *passed);
    if (credentials) {
        struct ucred theirs = {(pid_t)credentials->process, credentials->user, credentials->group};
        used += put_control_message(control.bytes + used, SCM_CREDENTIALS, &theirs, sizeof theirs);
    }
    message.msg_control = used ? &control : NULL;
    message.msg_controllen = used;
    return sendmsg(descriptor, &message, MSG_NOSIGNAL);
}

static void copy_descriptors(const struct cmsghdr *header, mrh_arrived *arrived)
{
    size_t limit = (MRH_PASSED_MAX - arrived->count) * sizeof *arrived->passed;
    size_t bytes = header->cmsg_len - CMSG_LEN(0);
    bytes = bytes < limit ? bytes : limit; /* the kernel sends no more */
    memcpy(arrived->passed + arrived->count, CMSG_DATA(header), bytes);
    arrived->count += (uint32_t)(bytes / sizeof *arrived->passed);
}

static void copy_credentials(const struct cmsghdr *header, mrh_arrived *arrived)
{
    struct ucred theirs;
    memcpy(&theirs, CMSG_DATA(header), sizeof theirs);
    arrived->credentials = (mrh_credentials){(uint32_t)theirs.pid, theirs.uid, theirs.gid};
    arrived->has_credentials = 1;
}

int64_t mrh_receive_passing(int descriptor, void *bytes, size_t size, mrh_arrived *arrived)
{
    control_buffer control;
    struct iovec piece = {bytes, size};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    *arrived = (mrh_arrived){0};
    if (mrh_refuses_simulated(descriptor))
        return -1;
    int64_t count = recvmsg(descriptor, &message, MSG_CMSG_CLOEXEC);
    if (count < 0)
        return -1;
    arrived->is_truncated = (message.msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each)) {
        if (each->cmsg_level != SOL_SOCKET)
            continue;
        if (each->cmsg_type == SCM_RIGHTS)
            copy_descriptors(each, arrived);
        else if (each->cmsg_type == SCM_CREDENTIALS)
            copy_credentials(each, arrived);
    }
    return count;
}

int64_t mrh_connect_with(int descriptor, const void *bytes, size_t size, const struct sockaddr *address,
                         socklen_t length)
{
    return mrh_refuses_simulated(descriptor)
               ? -1
               : sendto(descriptor, bytes, size, MSG_FASTOPEN | MSG_NOSIGNAL, address, length);
}
