/* call.c: see call.h. */
#define _GNU_SOURCE
#include "call.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 128 };

static int answerer = -1; /* the epoll descriptor of the answering thread */
static struct timespec begin;
static long resident_before_bytes;

static void check(int succeeded, const char *attempted)
{
    if (!succeeded) {
        perror(attempted);
        exit(1);
    }
}

int call_sleep(int milliseconds)
{
    check(usleep((useconds_t)milliseconds * 1000) == 0, "usleep");
    return 0;
}

int call_ask(int descriptor)
{
    char byte = '?';
    check(write(descriptor, &byte, 1) == 1, "call_ask: write");
    check(read(descriptor, &byte, 1) == 1, "call_ask: read");
    return byte;
}

int call_nothing(int ignored)
{
    return ignored;
}

static void answer_one(int descriptor)
{
    char byte;
    check(read(descriptor, &byte, 1) == 1, "answering thread: read");
    byte = '!';
    check(write(descriptor, &byte, 1) == 1, "answering thread: write");
}

static void *answer_all(void *ignored)
{
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(answerer, events, EVENTS, -1);
        for (int i = 0; i < count; i++)
            answer_one(events[i].data.fd);
    }
    return ignored;
}

static void start_answerer(void)
{
    pthread_t thread;
    answerer = epoll_create1(EPOLL_CLOEXEC);
    check(answerer >= 0, "epoll_create1");
    check(pthread_create(&thread, NULL, answer_all, NULL) == 0, "pthread_create");
}

int call_open(void)
{
    int ends[2];
    if (answerer < 0)
        start_answerer();
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[1]};
    check(epoll_ctl(answerer, EPOLL_CTL_ADD, ends[1], &event) == 0, "epoll_ctl");
    return ends[0];
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    check(file && fscanf(file, "%*d %ld", &pages) == 1, "/proc/self/statm");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

void call_measure_begin(void)
{
    resident_before_bytes = resident_bytes();
    clock_gettime(CLOCK_MONOTONIC, &begin);
}

void call_measure_end(void)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    printf("%.6f %ld\n", seconds, resident_before_bytes);
    fflush(stdout); /* Flush here: not every run-time system ends the program with exit. */
}
