/* fixtures.c: what several files of cases need: connections, sockets on which every operation waits, a peer. */
#include "conform.h"

#ifdef __linux__
#include <dirent.h>
#endif
#include <pthread.h>

static connection connection_over(void (*make_pair)(int[2]))
{
    connection c = {.d = driver_new()};
    int pair[2];
    make_pair(pair);
    c.number = pair[0];
    c.handle = adopt(c.d, pair[0]);
    c.peer = pair[1];
    return c;
}

connection local_connection(void)
{
    return connection_over(local_pair);
}

connection tcp_connection(void)
{
    return connection_over(tcp_pair);
}

void make_stuck(stuck *s)
{
    struct sockaddr_in address;
    *s = (stuck){.d = driver_new()};
    local_pair(s->pair);
    s->handle = adopt(s->d, s->pair[0]);
    s->listener = adopt(s->d, tcp_listener(5, &address));
    s->element = (struct iovec){&s->byte, 1};
    fill(s->pair[0]);
}

mr_request stuck_request(stuck *s, int kind)
{
    switch (kind) {
    case 0:
        return recv_request(s->handle, &s->byte, 1);
    case 1:
        return send_request(s->handle, &s->byte, 1);
    case 2:
        return send_all_request(s->handle, &s->byte, 1);
    case 3:
        return vector_request(MR_RECV_VECTOR, s->handle, &s->element, 1);
    case 4:
        return vector_request(MR_SEND_VECTOR, s->handle, &s->element, 1);
    case 5:
        return accept_request(s->listener, NULL);
    case 6:
        return wait_request(MR_WAIT_READABLE, s->handle);
    case 7:
        return wait_request(MR_WAIT_WRITABLE, s->handle);
    default:
        return timeout_request(in_ms(3600 * 1000));
    }
}

int64_t first_refusal(driver *d, mr_request request)
{
    for (int tries = 0; tries < 1000; tries++) {
        int64_t result = perform(d, request).result;
        if (result < 0)
            return result;
        sleep_ms(1);
    }
    FAIL("%s is never refused", mr_kind_name(request.kind));
}

void check_broken(int64_t result)
{
    CHECK(result == -EPIPE || result == -ECONNRESET);
}

/* ------------------------------------------------------------------------------------------------ slow_reader --- */

struct slow_reader {
    int descriptor;
    uint64_t received;
    pthread_t thread;
};

static void *read_slowly(void *argument)
{
    slow_reader *reader = argument;
    unsigned char buffer[40000];
    uint64_t random = 5;
    size_t size;
    while ((size = read_some(reader->descriptor, buffer, harness_random(&random) % sizeof buffer + 1)) > 0) {
        check_pattern(buffer, reader->received, size);
        reader->received += size;
        if (harness_random(&random) % 16 == 0)
            sleep_us(harness_random(&random) % 500);
    }
    return NULL;
}

slow_reader *slow_reader_start(int descriptor)
{
    slow_reader *reader = calloc(1, sizeof *reader);
    CHECK(reader);
    reader->descriptor = descriptor;
    start_thread(&reader->thread, read_slowly, reader);
    return reader;
}

uint64_t slow_reader_finish(slow_reader *reader)
{
    CHECK_EQ(pthread_join(reader->thread, NULL), 0);
    uint64_t received = reader->received;
    free(reader);
    return received;
}

void check_borrowed(driver *d, mr_completion completion, const char *expected)
{
    size_t size = strlen(expected);
    CHECK_EQ(completion.result, size);
    CHECK_EQ(completion.transferred, size);
    CHECK(completion.buffer);
    CHECK_EQ(completion.buffer->length, size);
    CHECK_MEMORY(completion.buffer->bytes, expected, size);
    mr_loop_give_back(driver_loop(d), completion.buffer);
}

void check_nothing_borrowed(mr_completion completion, int64_t result)
{
    CHECK_EQ(completion.result, result);
    CHECK_EQ(completion.transferred, 0);
    CHECK(!completion.buffer);
}

#ifdef __linux__
int threads_of_process(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/task");
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}
#else
int threads_of_process(void)
{
    return 1;
}
#endif
