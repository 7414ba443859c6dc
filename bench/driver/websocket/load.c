// Generates WebSocket load: every connection sends "hello", waits for its echo, and sends again.
//
// Usage: websocket PORT CONNECTIONS SECONDS. It ends after that time, or at SIGINT, and prints its figures like
// wrk.lua.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char opening[] = "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

// A text frame of five bytes, masked with 1, 2, 3, 4.
static const unsigned char message[] = {0x81, 0x85, 1, 2, 3, 4, 'h' ^ 1, 'e' ^ 2, 'l' ^ 3, 'l' ^ 4, 'o' ^ 1};
static const unsigned char echo[] = {0x81, 5, 'h', 'e', 'l', 'l', 'o'};

// A connection. It is open from the end of the answer to its opening on.
struct connection {
    int descriptor;
    bool is_open;
    size_t held; // bytes of the echo that have come, or of the blank line that ends the answer to the opening
    uint64_t sent_ns;
};

// Latencies are counted in steps of 10 us up to a second; the last step has all longer ones.
enum { STEP_NS = 10000, STEPS = 100000 };
static uint64_t latencies[STEPS + 1];
static uint64_t messages, errors, bytes, longest_ns;
static volatile sig_atomic_t is_over;

static void end(int number)
{
    (void)number;
    is_over = 1;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "websocket: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void send_all(struct connection *one, const void *content, size_t size)
{
    if (send(one->descriptor, content, size, MSG_NOSIGNAL) != (ssize_t)size) {
        errors++;
    }
    one->sent_ns = now_ns();
}

static void start(struct connection *one, int port, int poller)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (one->descriptor < 0) {
        die("cannot make a socket");
    }
    if (connect(one->descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        die("cannot connect");
    }
    int yes = 1;
    setsockopt(one->descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ioctl(one->descriptor, FIONBIO, &yes);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, one->descriptor, &event) != 0) {
        die("cannot watch a connection");
    }
    send_all(one, opening, sizeof opening - 1);
}

static void count(struct connection *one)
{
    uint64_t took = now_ns() - one->sent_ns;
    uint64_t step = took / STEP_NS;
    latencies[step < STEPS ? step : STEPS]++;
    if (took > longest_ns) {
        longest_ns = took;
    }
    messages++;
    send_all(one, message, sizeof message);
}

// Takes bytes of the answer to the opening. Returns how many it has used.
static size_t take_head(struct connection *one, const char *received, size_t size)
{
    static const char blank[] = "\r\n\r\n";
    for (size_t index = 0; index < size; index++) {
        if (received[index] == blank[one->held]) {
            one->held++;
        } else {
            one->held = received[index] == '\r' ? 1 : 0;
        }
        if (one->held == 4) {
            one->held = 0;
            one->is_open = true;
            send_all(one, message, sizeof message);
            return index + 1;
        }
    }
    return size;
}

static bool take(struct connection *one)
{
    char received[4096];
    ssize_t size = read(one->descriptor, received, sizeof received); // recv would not count in /proc/PID/io
    if (size <= 0) {
        return size < 0 && errno == EAGAIN;
    }
    bytes += (uint64_t)size;
    size_t index = one->is_open ? 0 : take_head(one, received, (size_t)size);
    for (; index < (size_t)size; index++) {
        if ((unsigned char)received[index] != echo[one->held]) {
            return false;
        }
        if (++one->held == sizeof echo) {
            one->held = 0;
            count(one);
        }
    }
    return true;
}

static double percentile_us(double share)
{
    uint64_t wanted = (uint64_t)((double)messages * share);
    uint64_t seen = 0;
    for (size_t step = 0; step <= STEPS; step++) {
        seen += latencies[step];
        if (seen > wanted) {
            return (double)(step + 1) * STEP_NS / 1e3;
        }
    }
    return (double)longest_ns / 1e3;
}

static void print_figures(uint64_t duration_ns)
{
    printf("figures {\"requests\": %llu, \"duration_us\": %.0f, \"bytes\": %llu, \"errors_read\": %llu, "
           "\"latency_p50_us\": %.0f, \"latency_p90_us\": %.0f, \"latency_p99_us\": %.0f, "
           "\"latency_p99_9_us\": %.0f, \"latency_max_us\": %.0f}\n",
           (unsigned long long)messages, (double)duration_ns / 1e3, (unsigned long long)bytes,
           (unsigned long long)errors, percentile_us(0.5), percentile_us(0.9), percentile_us(0.99),
           percentile_us(0.999), (double)longest_ns / 1e3);
}

int main(int count_of_words, char **words)
{
    if (count_of_words != 4) {
        fprintf(stderr, "usage: websocket PORT CONNECTIONS SECONDS\n");
        return 2;
    }
    int port = atoi(words[1]);
    size_t connections = (size_t)atoi(words[2]);
    uint64_t limit_ns = (uint64_t)(atof(words[3]) * 1e9);
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGINT, &action, NULL);
    struct connection *all = calloc(connections, sizeof *all);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (!all || poller < 0) {
        die("cannot begin");
    }
    uint64_t begin = now_ns();
    for (size_t index = 0; index < connections; index++) {
        start(&all[index], port, poller);
    }
    struct epoll_event events[256];
    while (!is_over && now_ns() - begin < limit_ns) {
        int ready = epoll_wait(poller, events, 256, 100);
        for (int index = 0; index < ready; index++) {
            struct connection *one = events[index].data.ptr;
            if (!take(one)) {
                errors++;
                epoll_ctl(poller, EPOLL_CTL_DEL, one->descriptor, NULL);
                close(one->descriptor);
            }
        }
    }
    print_figures(now_ns() - begin);
    return 0;
}
