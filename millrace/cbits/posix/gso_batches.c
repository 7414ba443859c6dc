/* gso_batches.c: see gso_batches.h. */
#include "gso_batches.h"

#include "simulation.h"
#include "udp_options.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* The control buffer of a batch: its segment size, its ECN bits and its local address. */
typedef union control_buffer {
    struct cmsghdr header;
    char bytes[2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo))];
} control_buffer;

/* ------------------------------------------------------------------------------------------------------ sending --- */

static void put_control_message(struct msghdr *message, int level, int type, const void *value, size_t size)
{
    struct cmsghdr *next = (struct cmsghdr *)(void *)((char *)message->msg_control + message->msg_controllen);
    next->cmsg_level = level;
    next->cmsg_type = type;
    next->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(next), value, size);
    message->msg_controllen += CMSG_SPACE(size);
}

/* True if the packets have IPv4 headers. An IPv6 socket sends to IPv4 peers by mapped addresses. */
static int is_v4(const mrh_internet *peer)
{
    return peer->any.sa_family == AF_INET || IN6_IS_ADDR_V4MAPPED(&peer->v6.sin6_addr);
}

static void put_local(struct msghdr *message, const mrh_internet *local)
{
    if (local->any.sa_family == AF_INET) {
        struct in_pktinfo from = {.ipi_spec_dst = local->v4.sin_addr};
        put_control_message(message, IPPROTO_IP, IP_PKTINFO, &from, sizeof from);
    } else {
        struct in6_pktinfo from = {.ipi6_addr = local->v6.sin6_addr, .ipi6_ifindex = local->v6.sin6_scope_id};
        put_control_message(message, IPPROTO_IPV6, IPV6_PKTINFO, &from, sizeof from);
    }
}

static struct msghdr message_of(const mrh_gso_batch *batch, struct iovec *piece, control_buffer *control)
{
    *piece = (struct iovec){(void *)(uintptr_t)batch->bytes, batch->size};
    memset(control, 0, sizeof *control);
    struct msghdr message = {
        .msg_name = (void *)(uintptr_t)&batch->peer,
        .msg_namelen = batch->peer_length,
        .msg_iov = piece,
        .msg_iovlen = 1,
        .msg_control = control,
    };
    if (batch->segment < batch->size) {
        uint16_t segment = (uint16_t)batch->segment;
        put_control_message(&message, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
    }
    if (batch->ecn != 0) {
        int ecn = (int)batch->ecn;
        if (is_v4(&batch->peer))
            put_control_message(&message, IPPROTO_IP, IP_TOS, &ecn, sizeof ecn);
        else
            put_control_message(&message, IPPROTO_IPV6, IPV6_TCLASS, &ecn, sizeof ecn);
    }
    if (batch->local_length != 0)
        put_local(&message, &batch->local);
    if (message.msg_controllen == 0)
        message.msg_control = NULL;
    return message;
}

int64_t mrh_send_gso_batches(int descriptor, const mrh_gso_batch *batches, unsigned count)
{
    struct mmsghdr messages[MRH_GSO_BATCHES];
    struct iovec pieces[MRH_GSO_BATCHES];
    control_buffer controls[MRH_GSO_BATCHES];
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (count > MRH_GSO_BATCHES)
        count = MRH_GSO_BATCHES;
    for (unsigned i = 0; i < count; i++)
        messages[i] = (struct mmsghdr){.msg_hdr = message_of(&batches[i], &pieces[i], &controls[i])};
    return sendmmsg(descriptor, messages, count, MSG_NOSIGNAL);
}

/* ---------------------------------------------------------------------------------------------------- receiving --- */

static int number_in(struct cmsghdr *header)
{
    int number = 0;
    size_t size = header->cmsg_len - CMSG_LEN(0);
    memcpy(&number, CMSG_DATA(header), size < sizeof number ? size : sizeof number); /* IP_TOS is one byte */
    return number;
}

static void set_local(mrh_gso_batch *batch, const struct in_pktinfo *to)
{
    batch->local.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = to->ipi_spec_dst};
    batch->local_length = sizeof batch->local.v4;
}

static void set_local6(mrh_gso_batch *batch, const struct in6_pktinfo *to)
{
    batch->local.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = to->ipi6_addr};
    if (IN6_IS_ADDR_LINKLOCAL(&to->ipi6_addr))
        batch->local.v6.sin6_scope_id = to->ipi6_ifindex;
    batch->local_length = sizeof batch->local.v6;
}

static void read_control_message(mrh_gso_batch *batch, struct cmsghdr *header)
{
    int level = header->cmsg_level, type = header->cmsg_type;
    struct in_pktinfo to;
    struct in6_pktinfo to6;
    if (level == SOL_UDP && type == UDP_GRO) {
        batch->segment = (uint32_t)number_in(header);
    } else if ((level == IPPROTO_IP && type == IP_TOS) || (level == IPPROTO_IPV6 && type == IPV6_TCLASS)) {
        batch->ecn = (uint32_t)number_in(header) & 3;
    } else if (level == IPPROTO_IP && type == IP_PKTINFO) {
        memcpy(&to, CMSG_DATA(header), sizeof to);
        set_local(batch, &to);
    } else if (level == IPPROTO_IPV6 && type == IPV6_PKTINFO) {
        memcpy(&to6, CMSG_DATA(header), sizeof to6);
        set_local6(batch, &to6);
    }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the kernel writes there */
int64_t mrh_receive_gso_batches(int descriptor, unsigned char *bytes, mrh_gso_batch *batches, unsigned count)
{
    struct mmsghdr messages[MRH_GSO_BATCHES];
    struct iovec pieces[MRH_GSO_BATCHES];
    control_buffer controls[MRH_GSO_BATCHES];
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (count > MRH_GSO_BATCHES)
        count = MRH_GSO_BATCHES;
    for (unsigned i = 0; i < count; i++) {
        pieces[i] = (struct iovec){bytes + i * (size_t)MRH_GSO_STRIDE, 65536};
        messages[i] = (struct mmsghdr){.msg_hdr = {
                                           .msg_name = &batches[i].peer,
                                           .msg_namelen = sizeof batches[i].peer,
                                           .msg_iov = &pieces[i],
                                           .msg_iovlen = 1,
                                           .msg_control = &controls[i],
                                           .msg_controllen = sizeof controls[i],
                                       }};
    }
    int received = recvmmsg(descriptor, messages, count, MSG_DONTWAIT, NULL);
    for (int i = 0; i < received; i++) {
        struct msghdr *message = &messages[i].msg_hdr;
        mrh_gso_batch *batch = &batches[i];
        batch->peer_length = message->msg_namelen <= sizeof batch->peer ? message->msg_namelen : 0;
        batch->local_length = 0;
        batch->size = batch->segment = messages[i].msg_len;
        batch->ecn = 0;
        for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each))
            read_control_message(batch, each);
    }
    return received;
}

static int family_of(int descriptor)
{
    int family = -1;
    socklen_t size = sizeof family;
    return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 ? -1 : family;
}

int mrh_report_ecn(int descriptor, int is_on)
{
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (family_of(descriptor) == AF_INET6 &&
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVTCLASS, &is_on, sizeof is_on) < 0)
        return -1;
    /* On an IPv6 socket this is for IPv4 peers. */
    return setsockopt(descriptor, IPPROTO_IP, IP_RECVTOS, &is_on, sizeof is_on);
}

int mrh_report_local(int descriptor, int is_on)
{
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (family_of(descriptor) == AF_INET6)
        return setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, &is_on, sizeof is_on);
    return setsockopt(descriptor, IPPROTO_IP, IP_PKTINFO, &is_on, sizeof is_on);
}
