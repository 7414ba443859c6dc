/* datagrams.c: see datagrams.h. */
#include "datagrams.h"

#include "simulation.h"
#include "udp_options.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

int mrh_is_simulated_socket(int descriptor)
{
    return mrh_is_simulated(descriptor);
}

/* ------------------------------------------------------------------------------------------------------ batches --- */

static struct msghdr header_of(const mrh_outgoing *datagram, struct iovec *piece)
{
    *piece = (struct iovec){(void *)(uintptr_t)datagram->bytes, datagram->size};
    return (struct msghdr){
        .msg_name = (void *)(uintptr_t)datagram->address,
        .msg_namelen = datagram->address ? datagram->address_length : 0,
        .msg_iov = piece,
        .msg_iovlen = 1,
    };
}

int64_t mrh_send_batch(int descriptor, const mrh_outgoing *datagrams, unsigned count)
{
    struct mmsghdr messages[MRH_BATCH];
    struct iovec pieces[MRH_BATCH];
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (count > MRH_BATCH)
        count = MRH_BATCH;
    for (unsigned i = 0; i < count; i++)
        messages[i] = (struct mmsghdr){.msg_hdr = header_of(&datagrams[i], &pieces[i])};
    return sendmmsg(descriptor, messages, count, MSG_NOSIGNAL);
}

/* The control buffer of a datagram: one number. */
typedef union control_buffer {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} control_buffer;

/* Other control messages that the program has requested are lost, because the buffer holds only this one. */
static uint32_t segment_in(struct msghdr *message)
{
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each)) {
        int segment = 0;
        if (each->cmsg_level != SOL_UDP || each->cmsg_type != UDP_GRO)
            continue;
        memcpy(&segment, CMSG_DATA(each), sizeof segment);
        return (uint32_t)segment;
    }
    return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the kernel writes there */
int64_t mrh_receive_batch(int descriptor, unsigned char *bytes, size_t size, mrh_incoming *datagrams, unsigned count)
{
    struct mmsghdr messages[MRH_BATCH];
    struct iovec pieces[MRH_BATCH];
    control_buffer controls[MRH_BATCH];
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (count > MRH_BATCH)
        count = MRH_BATCH;
    for (unsigned i = 0; i < count; i++) {
        pieces[i] = (struct iovec){bytes + i * size, size};
        messages[i] = (struct mmsghdr){.msg_hdr = {
                                           .msg_name = &datagrams[i].address,
                                           .msg_namelen = sizeof datagrams[i].address,
                                           .msg_iov = &pieces[i],
                                           .msg_iovlen = 1,
                                           .msg_control = &controls[i],
                                           .msg_controllen = sizeof controls[i],
                                       }};
    }
    int received = recvmmsg(descriptor, messages, count, MSG_DONTWAIT, NULL);
    for (int i = 0; i < received; i++) {
        datagrams[i].address_length = messages[i].msg_hdr.msg_namelen;
        datagrams[i].size = messages[i].msg_len;
        datagrams[i].segment = segment_in(&messages[i].msg_hdr);
    }
    return received;
}

/* ----------------------------------------------------------------------------------------------------- segments --- */

int64_t mrh_send_segments(int descriptor, const mrh_outgoing *whole, uint16_t segment)
{
    struct iovec piece;
    control_buffer control = {.bytes = {0}};
    struct msghdr message = header_of(whole, &piece);
    if (mrh_refuses_simulated(descriptor))
        return -1;
    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE(sizeof segment);
    control.header.cmsg_level = SOL_UDP;
    control.header.cmsg_type = UDP_SEGMENT;
    control.header.cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(&control.header), &segment, sizeof segment);
    return sendmsg(descriptor, &message, MSG_NOSIGNAL);
}

int mrh_set_gro(int descriptor, int is_on)
{
    return mrh_refuses_simulated(descriptor) ? -1 : setsockopt(descriptor, SOL_UDP, UDP_GRO, &is_on, sizeof is_on);
}

/* ---------------------------------------------------------------------------------------------------- multicast --- */

static int level_of(int family)
{
    return family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
}

typedef struct membership {
    uint32_t interface;
    const struct sockaddr *group, *source; /* source: NULL for all senders */
    socklen_t group_length, source_length;
} membership;

/* Sets one of two socket options: `for_all` if all senders may send to the group, or `for_source`. */
static int change_membership(int descriptor, int for_all, int for_source, membership m)
{
    struct group_source_req both = {.gsr_interface = m.interface};
    struct group_req one = {.gr_interface = m.interface};
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (m.group_length > sizeof one.gr_group || m.source_length > sizeof both.gsr_source) {
        errno = EINVAL;
        return -1;
    }
    int level = level_of(m.group->sa_family);
    if (!m.source) {
        memcpy(&one.gr_group, m.group, m.group_length);
        return setsockopt(descriptor, level, for_all, &one, sizeof one);
    }
    memcpy(&both.gsr_group, m.group, m.group_length);
    memcpy(&both.gsr_source, m.source, m.source_length);
    return setsockopt(descriptor, level, for_source, &both, sizeof both);
}

int mrh_join_group(int descriptor, uint32_t interface, const struct sockaddr *group, socklen_t group_length,
                   const struct sockaddr *source, socklen_t source_length)
{
    membership m = {interface, group, source, group_length, source_length};
    return change_membership(descriptor, MCAST_JOIN_GROUP, MCAST_JOIN_SOURCE_GROUP, m);
}

int mrh_leave_group(int descriptor, uint32_t interface, const struct sockaddr *group, socklen_t group_length,
                    const struct sockaddr *source, socklen_t source_length)
{
    membership m = {interface, group, source, group_length, source_length};
    return change_membership(descriptor, MCAST_LEAVE_GROUP, MCAST_LEAVE_SOURCE_GROUP, m);
}

static int family_of(int descriptor)
{
    int family = -1;
    socklen_t size = sizeof family;
    return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 ? -1 : family;
}

static int option_of(int family, int what)
{
    switch ((mrh_multicast_option)what) {
    case MRH_MULTICAST_INTERFACE:
        return family == AF_INET6 ? IPV6_MULTICAST_IF : IP_MULTICAST_IF;
    case MRH_MULTICAST_HOPS:
        return family == AF_INET6 ? IPV6_MULTICAST_HOPS : IP_MULTICAST_TTL;
    case MRH_MULTICAST_LOOPBACK:
        return family == AF_INET6 ? IPV6_MULTICAST_LOOP : IP_MULTICAST_LOOP;
    }
    return -1;
}

int mrh_set_multicast_option(int descriptor, int what, int value)
{
    struct ip_mreqn interface = {.imr_ifindex = value};
    if (mrh_refuses_simulated(descriptor))
        return -1;
    int family = family_of(descriptor);
    if (family < 0)
        return -1;
    if (what == MRH_MULTICAST_INTERFACE && family != AF_INET6)
        return setsockopt(descriptor, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
    return setsockopt(descriptor, level_of(family), option_of(family, what), &value, sizeof value);
}

int mrh_get_multicast_option(int descriptor, int what)
{
    int value = 0;
    socklen_t size = sizeof value;
    if (mrh_refuses_simulated(descriptor))
        return -1;
    int family = family_of(descriptor);
    if (family < 0 || getsockopt(descriptor, level_of(family), option_of(family, what), &value, &size) < 0)
        return -1;
    return value;
}
