/* answer.c: see answer.h. */
#define _GNU_SOURCE
#include "answer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

static enum service current_service;
static struct answer keep_alive_answer;
static struct answer closing_answer;

static void answer_fill(struct answer *answer, const char *text, size_t size)
{
    answer->size = size;
    for (int i = 0; i < ANSWER_COPIES; i++)
        memcpy(answer->copies + (size_t)i * size, text, size);
}

void answer_prepare(enum service service)
{
    static const char pong[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nPong!";
    static const char pong_closing[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\nPong!";
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 460\r\n\r\n";
    char text[500];
    current_service = service;
    if (service == SERVICE_PONG) {
        answer_fill(&keep_alive_answer, pong, sizeof pong - 1);
        answer_fill(&closing_answer, pong_closing, sizeof pong_closing - 1);
    } else {
        _Static_assert(sizeof head - 1 + 460 == sizeof text, "the answer has 500 bytes");
        memset(text, 'x', sizeof text);
        memcpy(text, head, sizeof head - 1);
        answer_fill(&keep_alive_answer, text, sizeof text);
    }
}

static const struct answer *dialogue_answer(const struct dialogue *dialogue)
{
    return dialogue->closing ? &closing_answer : &keep_alive_answer;
}

/* Counts the requests that end in these bytes: each ends with a blank line. `matched` carries a blank line that is
 * split between two reads. */
static uint64_t requests_ended(struct dialogue *dialogue, const char *bytes, size_t length)
{
    static const char blank[4] = {'\r', '\n', '\r', '\n'};
    uint64_t ended = 0;
    uint8_t matched = dialogue->matched;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == blank[matched])
            matched++;
        else
            matched = bytes[i] == '\r';
        if (matched == sizeof blank) {
            ended++;
            matched = 0;
        }
    }
    dialogue->matched = matched;
    return ended;
}

void dialogue_received(struct dialogue *dialogue, const char *bytes, size_t length)
{
    static const char close_field[] = "Connection: close";
    uint64_t answers = 1;
    if (current_service == SERVICE_PONG) {
        answers = requests_ended(dialogue, bytes, length);
        /* Searches these bytes only. The field is not split between two reads, because the load generators write a
         * request with one send. */
        if (memmem(bytes, length, close_field, sizeof close_field - 1) != NULL)
            dialogue->closing = true;
    }
    dialogue->owed += answers * dialogue_answer(dialogue)->size;
}

size_t dialogue_unsent(const struct dialogue *dialogue, const char **bytes)
{
    const struct answer *answer = dialogue_answer(dialogue);
    size_t begun = (size_t)(dialogue->owed % answer->size);
    size_t offset = begun == 0 ? 0 : answer->size - begun;
    size_t length = answer->size * ANSWER_COPIES - offset;
    *bytes = answer->copies + offset;
    return dialogue->owed < length ? (size_t)dialogue->owed : length;
}

void dialogue_sent(struct dialogue *dialogue, size_t length)
{
    dialogue->owed -= length;
}

int listener_open(uint16_t port, int flags)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0 ||
        /* Set once here: on Linux, accepted sockets inherit TCP_NODELAY. */
        setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0 || listen(descriptor, 4096) < 0) {
        perror("cannot open the listening socket");
        exit(1);
    }
    return descriptor;
}

struct arguments arguments_parse(int count, char **values)
{
    struct arguments arguments;
    struct rlimit limit;
    long port, threads;
    if (count != 4 || (strcmp(values[1], "tcp500") != 0 && strcmp(values[1], "pong") != 0)) {
        fprintf(stderr, "usage: %s tcp500|pong PORT THREADS\n", values[0]);
        exit(2);
    }
    port = strtol(values[2], NULL, 10);
    threads = strtol(values[3], NULL, 10);
    if (port < 1 || port > 65535 || threads < 1 || threads > 1024) {
        fprintf(stderr, "%s: PORT or THREADS out of range\n", values[0]);
        exit(2);
    }
    arguments.service = strcmp(values[1], "pong") == 0 ? SERVICE_PONG : SERVICE_TCP500;
    arguments.port = (uint16_t)port;
    arguments.threads = (int)threads;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    return arguments;
}

void serve_on_threads(struct arguments *arguments, void *(*serve)(void *))
{
    for (int i = 1; i < arguments->threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, arguments) != 0) {
            fprintf(stderr, "cannot start a thread\n");
            exit(1);
        }
    }
    serve(arguments);
}
