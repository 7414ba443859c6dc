/* zero_copy.c: CPU time of sending a gibibyte over a TCP connection, plainly and with MSG_ZEROCOPY, in pieces of a
 * given size.
 *
 * core-zero-copy ADDRESS [PIECE] the receiver is a child, which discards what it gets. Prints ns of CPU of the sender
 * for each mebibyte, plainly and with MSG_ZEROCOPY in turn, and how many sends the kernel copied all the same. Must not
 * know: loops. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 9 };
static const uint64_t TOTAL = 1ull << 30;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000 +
           (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000;
}

/* Takes notices of finished sends. Returns how many sends they are for; adds those that were copied. */
static uint64_t take_notices(int s, uint64_t *copied)
{
    char beside[128];
    struct msghdr message = {.msg_control = beside, .msg_controllen = sizeof beside};
    if (recvmsg(s, &message, MSG_ERRQUEUE) < 0)
        return 0;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    struct sock_extended_err notice;
    if (!header)
        return 0;
    memcpy(&notice, CMSG_DATA(header), sizeof notice);
    uint64_t count = notice.ee_data - notice.ee_info + 1;
    if (notice.ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
        *copied += count;
    return count;
}

static uint64_t send_all(int s, const char *bytes, size_t piece, int flags, uint64_t *sends, uint64_t *copied)
{
    uint64_t begin = cpu_ns(), pending = 0;
    for (uint64_t done = 0; done < TOTAL;) {
        ssize_t count = send(s, bytes, piece, flags);
        if (count < 0 && errno == ENOBUFS) {
            pending -= take_notices(s, copied);
            continue;
        }
        if (count < 0)
            fail("send");
        done += (uint64_t)count;
        ++*sends;
        pending += flags != 0;
        while (pending > 64) {
            uint64_t taken = take_notices(s, copied);
            if (!taken) {
                struct pollfd ask = {.fd = s, .events = 0};
                poll(&ask, 1, 100);
            }
            pending -= taken;
        }
    }
    while (pending) {
        struct pollfd ask = {.fd = s, .events = 0};
        poll(&ask, 1, 100);
        pending -= take_notices(s, copied);
    }
    return cpu_ns() - begin;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const char *where = argc > 1 ? argv[1] : "127.0.0.1";
    size_t piece = argc > 2 ? strtoul(argv[2], NULL, 10) : 65536;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, where, &address.sin_addr);
    if (bind(listener, (void *)&address, sizeof address) < 0 || listen(listener, 1) < 0)
        fail("bind");
    getsockname(listener, (void *)&address, &length);
    pid_t child = fork();
    if (child == 0) {
        static char waste[1 << 20];
        int peer = accept(listener, NULL, NULL);
        while (recv(peer, waste, sizeof waste, 0) > 0)
            ;
        _exit(0);
    }
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(s, (void *)&address, sizeof address) < 0 || setsockopt(s, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) < 0)
        fail("connect");
    char *bytes = malloc(piece);
    memset(bytes, 1, piece);
    uint64_t plain[ROUNDS], zero[ROUNDS], sends = 0, copied = 0, ignored = 0;
    for (int i = 0; i < ROUNDS; i++) {
        plain[i] = send_all(s, bytes, piece, 0, &ignored, &ignored);
        zero[i] = send_all(s, bytes, piece, MSG_ZEROCOPY, &sends, &copied);
    }
    qsort(plain, ROUNDS, sizeof *plain, by_size);
    qsort(zero, ROUNDS, sizeof *zero, by_size);
    uint64_t plain_ns = plain[ROUNDS / 2], zero_ns = zero[ROUNDS / 2];
    printf("%zu bytes: plain %llu ns/MiB, MSG_ZEROCOPY %llu ns/MiB, ratio %.2f; copied %llu of %llu sends\n", piece,
           (unsigned long long)(plain_ns >> 10), (unsigned long long)(zero_ns >> 10),
           (double)zero_ns / (double)plain_ns, (unsigned long long)copied, (unsigned long long)sends);
    close(s);
    waitpid(child, NULL, 0);
    return 0;
}
