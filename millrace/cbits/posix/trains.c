/* trains.c: see trains.h. */
#include "trains.h"

#include "simulation.h"
#include "udp_options.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Room for what stands beside a train: a number for its segments, one for its mark, and an address. */
typedef union beside {
    struct cmsghdr header;
    char room[2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo))];
} beside;

/* ------------------------------------------------------------------------------------------------------ sending --- */

static void put(struct msghdr *message, int level, int type, const void *value, size_t size)
{
    struct cmsghdr *next = (struct cmsghdr *)(void *)((char *)message->msg_control + message->msg_controllen);
    next->cmsg_level = level;
    next->cmsg_type = type;
    next->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(next), value, size);
    message->msg_controllen += CMSG_SPACE(size);
}

/* A socket of IPv6 sends to IPv4 by such addresses, and then the header is IPv4's. */
static int is_v4(const mrh_internet *peer)
{
    return peer->any.sa_family == AF_INET || IN6_IS_ADDR_V4MAPPED(&peer->v6.sin6_addr);
}

static void put_local(struct msghdr *message, const mrh_internet *local)
{
    if (local->any.sa_family == AF_INET) {
        struct in_pktinfo from = {.ipi_spec_dst = local->v4.sin_addr};
        put(message, IPPROTO_IP, IP_PKTINFO, &from, sizeof from);
    } else {
        struct in6_pktinfo from = {.ipi6_addr = local->v6.sin6_addr, .ipi6_ifindex = local->v6.sin6_scope_id};
        put(message, IPPROTO_IPV6, IPV6_PKTINFO, &from, sizeof from);
    }
}

static struct msghdr message_of(const mrh_train *train, struct iovec *piece, beside *room)
{
    *piece = (struct iovec){(void *)(uintptr_t)train->bytes, train->size};
    memset(room, 0, sizeof *room);
    struct msghdr message = {
        .msg_name = (void *)(uintptr_t)&train->peer,
        .msg_namelen = train->peer_length,
        .msg_iov = piece,
        .msg_iovlen = 1,
        .msg_control = room,
    };
    if (train->segment < train->size) {
        uint16_t segment = (uint16_t)train->segment;
        put(&message, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
    }
    if (train->mark != 0) {
        int mark = (int)train->mark;
        if (is_v4(&train->peer))
            put(&message, IPPROTO_IP, IP_TOS, &mark, sizeof mark);
        else
            put(&message, IPPROTO_IPV6, IPV6_TCLASS, &mark, sizeof mark);
    }
    if (train->local_length != 0)
        put_local(&message, &train->local);
    if (message.msg_controllen == 0)
        message.msg_control = NULL;
    return message;
}

int64_t mrh_send_trains(int descriptor, const mrh_train *trains, unsigned count)
{
    struct mmsghdr messages[MRH_TRAINS];
    struct iovec pieces[MRH_TRAINS];
    beside rooms[MRH_TRAINS];
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (count > MRH_TRAINS)
        count = MRH_TRAINS;
    for (unsigned i = 0; i < count; i++)
        messages[i] = (struct mmsghdr){.msg_hdr = message_of(&trains[i], &pieces[i], &rooms[i])};
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

static void note_local(mrh_train *train, const struct in_pktinfo *to)
{
    train->local.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = to->ipi_spec_dst};
    train->local_length = sizeof train->local.v4;
}

static void note_local6(mrh_train *train, const struct in6_pktinfo *to)
{
    train->local.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = to->ipi6_addr};
    if (IN6_IS_ADDR_LINKLOCAL(&to->ipi6_addr))
        train->local.v6.sin6_scope_id = to->ipi6_ifindex;
    train->local_length = sizeof train->local.v6;
}

static void note(mrh_train *train, struct cmsghdr *header)
{
    int level = header->cmsg_level, type = header->cmsg_type;
    struct in_pktinfo to;
    struct in6_pktinfo to6;
    if (level == SOL_UDP && type == UDP_GRO) {
        train->segment = (uint32_t)number_in(header);
    } else if ((level == IPPROTO_IP && type == IP_TOS) || (level == IPPROTO_IPV6 && type == IPV6_TCLASS)) {
        train->mark = (uint32_t)number_in(header) & 3;
    } else if (level == IPPROTO_IP && type == IP_PKTINFO) {
        memcpy(&to, CMSG_DATA(header), sizeof to);
        note_local(train, &to);
    } else if (level == IPPROTO_IPV6 && type == IPV6_PKTINFO) {
        memcpy(&to6, CMSG_DATA(header), sizeof to6);
        note_local6(train, &to6);
    }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the kernel writes there */
int64_t mrh_receive_trains(int descriptor, unsigned char *bytes, mrh_train *trains, unsigned count)
{
    struct mmsghdr messages[MRH_TRAINS];
    struct iovec pieces[MRH_TRAINS];
    beside rooms[MRH_TRAINS];
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (count > MRH_TRAINS)
        count = MRH_TRAINS;
    for (unsigned i = 0; i < count; i++) {
        pieces[i] = (struct iovec){bytes + i * (size_t)MRH_TRAIN_STRIDE, 65536};
        messages[i] = (struct mmsghdr){.msg_hdr = {
                                           .msg_name = &trains[i].peer,
                                           .msg_namelen = sizeof trains[i].peer,
                                           .msg_iov = &pieces[i],
                                           .msg_iovlen = 1,
                                           .msg_control = &rooms[i],
                                           .msg_controllen = sizeof rooms[i],
                                       }};
    }
    int received = recvmmsg(descriptor, messages, count, MSG_DONTWAIT, NULL);
    for (int i = 0; i < received; i++) {
        struct msghdr *message = &messages[i].msg_hdr;
        mrh_train *train = &trains[i];
        train->peer_length = message->msg_namelen <= sizeof train->peer ? message->msg_namelen : 0;
        train->local_length = 0;
        train->size = train->segment = messages[i].msg_len;
        train->mark = 0;
        for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each))
            note(train, each);
    }
    return received;
}

static int family_of(int descriptor)
{
    int family = -1;
    socklen_t size = sizeof family;
    return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 ? -1 : family;
}

int mrh_report_marks(int descriptor, int is_on)
{
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (family_of(descriptor) == AF_INET6 &&
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVTCLASS, &is_on, sizeof is_on) < 0)
        return -1;
    return setsockopt(descriptor, IPPROTO_IP, IP_RECVTOS, &is_on, sizeof is_on); /* also for IPv4 on a socket of IPv6 */
}

int mrh_report_local(int descriptor, int is_on)
{
    if (mrh_refuses_simulated(descriptor))
        return -1;
    if (family_of(descriptor) == AF_INET6)
        return setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, &is_on, sizeof is_on);
    return setsockopt(descriptor, IPPROTO_IP, IP_PKTINFO, &is_on, sizeof is_on);
}
