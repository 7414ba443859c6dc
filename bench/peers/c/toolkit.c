/* toolkit.c: see toolkit.h. */
#define _GNU_SOURCE
#include "toolkit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096, PACKET_BYTES = 100, BURST_MOST = 64, BUFFER_BYTES = 1 << 20 };

static struct timespec began;
static double cpu_before;

static void check(int succeeded, const char *attempted)
{
    if (!succeeded) {
        perror(attempted);
        exit(1);
    }
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double cpu_seconds(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return seconds_of(self.ru_utime) + seconds_of(self.ru_stime) + seconds_of(children.ru_utime) +
           seconds_of(children.ru_stime);
}

void toolkit_begin(void)
{
    cpu_before = cpu_seconds();
    clock_gettime(CLOCK_MONOTONIC, &began);
}

void toolkit_end(void)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double cpu = cpu_seconds() - cpu_before;
    double seconds = (double)(end.tv_sec - began.tv_sec) + (double)(end.tv_nsec - began.tv_nsec) / 1e9;
    printf("%.6f %.6f\n", seconds, cpu);
    fflush(stdout); /* Flush here: not every run-time system ends the program with exit. */
}

unsigned long toolkit_random(unsigned long *state, unsigned long bound)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % bound;
}

int toolkit_open(const char *path, int is_direct)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | (is_direct ? O_DIRECT : 0));
    check(descriptor >= 0, path);
    return descriptor;
}

long toolkit_size(int descriptor)
{
    return lseek(descriptor, 0, SEEK_END);
}

void *toolkit_block(void)
{
    void *block = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
    check(block != NULL, "aligned_alloc");
    return block;
}

int toolkit_udp_server(void)
{
    int buffer_bytes = BUFFER_BYTES;
    int server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(server >= 0, "socket");
    check(bind(server, (struct sockaddr *)&here, sizeof here) == 0, "bind");
    setsockopt(server, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    return server;
}

/* Sends a burst and takes the answers. */
static void exchange(int client, struct mmsghdr *messages, int burst)
{
    for (int sent = 0; sent < burst;) {
        int count = sendmmsg(client, messages + sent, (unsigned)(burst - sent), 0);
        check(count > 0, "load: sendmmsg");
        sent += count;
    }
    for (int received = 0; received < burst;) {
        int count = recvmmsg(client, messages, (unsigned)(burst - received), MSG_WAITFORONE, NULL);
        check(count > 0, "load: recvmmsg");
        received += count;
    }
}

void toolkit_udp_load(int server, long packets, int burst)
{
    struct sockaddr_in there;
    socklen_t length = sizeof there;
    check(getsockname(server, (struct sockaddr *)&there, &length) == 0, "getsockname");
    if (fork() != 0)
        return;
    static char bytes[BURST_MOST][PACKET_BYTES];
    static struct iovec elements[BURST_MOST];
    static struct mmsghdr messages[BURST_MOST];
    int client = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    check(connect(client, (struct sockaddr *)&there, sizeof there) == 0, "load: connect");
    for (int i = 0; i < burst; i++) {
        elements[i] = (struct iovec){bytes[i], PACKET_BYTES};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &elements[i], .msg_iovlen = 1};
    }
    alarm(60); /* so that it ends with the test, whatever becomes of its packets */
    for (long left = packets; left > 0; left -= burst)
        exchange(client, messages, burst);
    _exit(0);
}
