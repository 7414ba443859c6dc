/* stream_test.h: what several tests of streams share. */
#ifndef MILLRACE_FIBER_STREAM_TEST_H
#define MILLRACE_FIBER_STREAM_TEST_H

#include "../../src/interpose/stream.h"
#include "interpose_test.h"

#include <fcntl.h>
#include <poll.h>
#include <printf.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdio_ext.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <wchar.h>

enum { LINES = 500 };

typedef struct slow_reader {
    int descriptor;
    size_t bytes;
    pthread_t thread;
} slow_reader;

static inline void *read_later(void *argument)
{
    slow_reader *r = argument;
    char buffer[65536];
    ssize_t count;
    usleep(PAUSE_MS * 1000);
    while ((count = read(r->descriptor, buffer, sizeof buffer)) > 0)
        r->bytes += (size_t)count;
    return NULL;
}

static inline void *print_much(void *argument)
{
    FILE *stream = argument;
    for (int i = 0; i < LINES; i++) {
        CHECK_EQ(fprintf(stream, "%08d", i), 8);
        CHECK_GE(fputs("=", stream), 0);
        CHECK_EQ(fwrite("line", 1, 4, stream), 4);
        CHECK_EQ(fputc('\n', stream), '\n');
    }
    CHECK_EQ(fflush(stream), 0);
    CHECK_EQ(fclose(stream), 0);
    return NULL;
}

/* Writes until the descriptor is full. Returns how many bytes it wrote. */
static inline size_t fill_up(int writer)
{
    static char bytes[4096];
    size_t filled = 0;
    ssize_t count;
    int flags = MUST(fcntl(writer, F_GETFL));
    MUST(fcntl(writer, F_SETFL, flags | O_NONBLOCK));
    for (size_t size = sizeof bytes; size > 0; size /= 2) /* to the last byte */
        while ((count = write(writer, bytes, size)) > 0)
            filled += (size_t)count;
    MUST(fcntl(writer, F_SETFL, flags));
    return filled;
}

#endif
