// A bad network on one machine: a link that delays and drops IP packets, of UDP and of TCP alike. It works where the
// kernel has no netem.
//
// Usage: link DELAY_MS LOSS_PERCENT MEGABITS CONGESTION_CONTROL. It makes a network namespace for itself, prints
// "ready", and works until it is asked to end. Others enter the namespace by `nsenter --net=/proc/PID/ns/net`. A server
// there listens at 10.77.0.3, and clients find it at 10.77.0.4. Each packet between them waits for its turn at this
// many megabits per second, and then for the delay. It is dropped at random, or if it would have to wait for its turn
// longer than QUEUE_NS: both in each direction by itself. TCP in the namespace uses the given congestion control. Needs
// the right to make namespaces, /dev/net/tun, and ip of iproute2.
//
// All packets come from one TUN device and go back to it. The addresses are chosen so that changing them leaves every
// checksum as it is: the client's 1 and 4 have the sum of the server's 2 and 3.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { CLIENT = 1, CLIENT_SEEN = 2, SERVER = 3, SERVER_SEEN = 4 }; // the last bytes of 10.77.0.x
enum { SOURCE_AT = 15, TARGET_AT = 19, HEAD = 20, PACKET_MOST = 1500 };
enum { SLOTS = 1 << 15, QUEUE_NS = 50000000 };

struct packet {
    uint64_t due_ns;
    size_t length;
    uint8_t bytes[PACKET_MOST];
};

// Packets on their way, in the order in which they arrive.
struct direction {
    struct packet *slots;
    size_t first, count;
    uint64_t free_ns; // when the last packet's turn is over
    uint64_t passed, lost, overflowed;
};

static struct direction to_server, to_client;
static uint64_t delay_ns, seed = 88172645463325252;
static double loss, bits_per_ns;

static void die(const char *what)
{
    fprintf(stderr, "link: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// xorshift: the same sequence in every run.
static double random_share(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) / (double)(UINT64_C(1) << 53);
}

static void accept_packet(struct direction *way, const uint8_t *bytes, size_t length, uint64_t now)
{
    uint64_t begin = way->free_ns > now ? way->free_ns : now;
    if (random_share() < loss) {
        way->lost++;
        return;
    }
    if (begin - now > QUEUE_NS || way->count == SLOTS) {
        way->overflowed++;
        return;
    }
    struct packet *packet = &way->slots[(way->first + way->count++) % SLOTS];
    way->free_ns = begin + (uint64_t)((double)length * 8 / bits_per_ns);
    packet->due_ns = way->free_ns + delay_ns;
    packet->length = length;
    memcpy(packet->bytes, bytes, length);
}

// Reads what the device has.
static void read_all(int device)
{
    uint8_t bytes[PACKET_MOST];
    ssize_t length;
    while ((length = read(device, bytes, sizeof bytes)) > 0) {
        uint64_t now = now_ns();
        if (length < HEAD || bytes[0] >> 4 != 4) {
            continue;
        }
        if (bytes[TARGET_AT] == SERVER_SEEN) {
            bytes[SOURCE_AT] = CLIENT_SEEN;
            bytes[TARGET_AT] = SERVER;
            accept_packet(&to_server, bytes, (size_t)length, now);
        } else if (bytes[TARGET_AT] == CLIENT_SEEN) {
            bytes[SOURCE_AT] = SERVER_SEEN;
            bytes[TARGET_AT] = CLIENT;
            accept_packet(&to_client, bytes, (size_t)length, now);
        }
    }
}

// Writes what is due, and returns when the next packet is.
static uint64_t write_due(struct direction *way, int device)
{
    while (way->count > 0) {
        struct packet *packet = &way->slots[way->first];
        if (packet->due_ns > now_ns()) {
            return packet->due_ns;
        }
        (void)!write(device, packet->bytes, packet->length);
        way->passed++;
        way->first = (way->first + 1) % SLOTS;
        way->count--;
    }
    return UINT64_MAX;
}

static void set_address(int control, const char *name, int last)
{
    struct ifreq request = {0};
    struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(UINT32_C(0x0a4d0000) | (uint32_t)last);
    if (ioctl(control, SIOCSIFADDR, &request) != 0) {
        die("cannot set an address");
    }
    address->sin_addr.s_addr = htonl(UINT32_C(0xffffff00));
    if (ioctl(control, SIOCSIFNETMASK, &request) != 0) {
        die("cannot set a netmask");
    }
}

static void bring_up(int control, const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(control, SIOCSIFFLAGS, &request) != 0) {
        die("cannot bring up an interface");
    }
}

static int make_device(void)
{
    struct ifreq request = {.ifr_name = "link", .ifr_flags = IFF_TUN | IFF_NO_PI};
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), control = socket(AF_INET, SOCK_DGRAM, 0);
    if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0) {
        die("cannot make a TUN device");
    }
    set_address(control, "link", CLIENT);
    set_address(control, "link:1", SERVER);
    request.ifr_qlen = 10000; // what waits is in the queue above
    if (ioctl(control, SIOCSIFTXQLEN, &request) != 0) {
        die("cannot set the length of the queue");
    }
    bring_up(control, "link");
    bring_up(control, "lo");
    close(control);
    return device;
}

// Only by a route: the setting of a namespace takes no algorithm that the machine does not allow everybody.
static void choose_congestion_control(const char *name)
{
    char command[200];
    snprintf(command, sizeof command, "ip route replace 10.77.0.0/24 dev link src 10.77.0.1 congctl %s", name);
    if (system(command) != 0) {
        die("cannot choose the congestion control");
    }
}

int main(int count_of_words, char **words)
{
    if (count_of_words != 5) {
        fprintf(stderr, "usage: link DELAY_MS LOSS_PERCENT MEGABITS CONGESTION_CONTROL\n");
        return 2;
    }
    delay_ns = (uint64_t)(atof(words[1]) * 1e6);
    loss = atof(words[2]) / 100;
    bits_per_ns = atof(words[3]) / 1000;
    to_server.slots = calloc(SLOTS, sizeof *to_server.slots);
    to_client.slots = calloc(SLOTS, sizeof *to_client.slots);
    if (to_server.slots == NULL || to_client.slots == NULL) {
        die("no memory");
    }
    if (unshare(CLONE_NEWNET) != 0) {
        die("cannot make a network namespace");
    }
    int device = make_device();
    choose_congestion_control(words[4]);
    (void)setpriority(PRIO_PROCESS, 0, -10); // it should not be late because others work
    (void)prctl(PR_SET_TIMERSLACK, 1);
    puts("ready");
    fflush(stdout);
    for (;;) {
        uint64_t server_ns = write_due(&to_server, device), client_ns = write_due(&to_client, device);
        uint64_t next = server_ns < client_ns ? server_ns : client_ns, now = now_ns();
        struct pollfd waiting[2] = {{.fd = device, .events = POLLIN}, {.fd = 0, .events = 0}};
        struct timespec limit = {0};
        if (next > now) {
            limit.tv_sec = (time_t)((next - now) / 1000000000);
            limit.tv_nsec = (long)((next - now) % 1000000000);
        }
        if (ppoll(waiting, 2, next == UINT64_MAX ? NULL : &limit, NULL) < 0 && errno != EINTR) {
            die("cannot wait");
        }
        if (waiting[1].revents != 0) { // who has started it is gone, or wants the figures
            printf("to the server: %llu passed, %llu lost, %llu overflowed; to the client: %llu, %llu, %llu\n",
                   (unsigned long long)to_server.passed, (unsigned long long)to_server.lost,
                   (unsigned long long)to_server.overflowed, (unsigned long long)to_client.passed,
                   (unsigned long long)to_client.lost, (unsigned long long)to_client.overflowed);
            return 0;
        }
        read_all(device);
    }
}
