/* send_file.c: MR_SEND_FILE. */
#include "conform.h"

#include <stdatomic.h>

enum { FILE_SIZE = 3 << 20, STEP_MAX = 1 << 20 };

static int pattern_file(void)
{
    unsigned char *data = malloc(FILE_SIZE);
    fill_pattern(data, 0, FILE_SIZE);
    int file = file_with(data, FILE_SIZE);
    free(data);
    return file;
}

static mr_request send_file_request(mr_handle handle, int file, uint64_t offset, uint64_t length)
{
    return (mr_request){.kind = MR_SEND_FILE,
                        .handle = handle,
                        .file = file,
                        .offset = offset,
                        .length = length,
                        .user_data = 77 + offset};
}

/* Reads and checks what has arrived of the file. Returns the new position. */
static uint64_t read_pattern(int descriptor, uint64_t position)
{
    static unsigned char buffer[1 << 16];
    int64_t size;
    while ((size = read_now(descriptor, buffer, sizeof buffer)) > 0) {
        check_pattern(buffer, position, (size_t)size);
        position += (uint64_t)size;
    }
    return position;
}

static void a_whole_file_in_steps(void)
{
    connection c = local_connection();
    int file = pattern_file();
    uint64_t sent = 0, received = 0;
    for (;;) {
        mr_completion completion;
        if (submit(c.d, send_file_request(c.handle, file, sent, FILE_SIZE), &completion)) {
            received = read_pattern(c.peer, received);
            completion = finish(c.d, completion.token);
        }
        CHECK_GE(completion.result, 0);
        CHECK_LE(completion.result, STEP_MAX);
        CHECK_EQ(completion.transferred, completion.result);
        if (completion.result == 0)
            break;
        sent += (uint64_t)completion.result;
    }
    CHECK_EQ(sent, FILE_SIZE);
    CHECK_EQ(read_pattern(c.peer, received), FILE_SIZE);
    CHECK_EQ(file_position(file), FILE_SIZE); /* the file's position does not change */
    driver_free(c.d);
}

static void a_part_of_a_file(void)
{
    connection c = local_connection();
    int file = pattern_file();
    CHECK_EQ(perform(c.d, send_file_request(c.handle, file, 1000, 500)).result, 500);
    CHECK_EQ(read_pattern(c.peer, 1000), 1500);
    CHECK_EQ(perform(c.d, send_file_request(c.handle, file, FILE_SIZE - 10, 500)).result, 10);
    CHECK_EQ(perform(c.d, send_file_request(c.handle, file, FILE_SIZE + 10, 500)).result, 0);
    driver_free(c.d);
}

static void it_waits_until_writable(void)
{
    connection c = tcp_connection();
    int file = pattern_file();
    fill(c.number);
    mr_token token = start(c.d, send_file_request(c.handle, file, 0, 100));
    CHECK_STAYS_PENDING(c.d, token);
    CHECK_EQ(finish_while_read(c.d, token, c.peer).result, 100);
    driver_free(c.d);
}

static void it_can_be_ended(void)
{
    static const int64_t errors[] = {-ECANCELED, -ETIMEDOUT, -EBADF};
    for (int i = 0; i < 3; i++) {
        connection c = tcp_connection();
        int file = pattern_file();
        fill(c.number);
        mr_request request = send_file_request(c.handle, file, 0, 100);
        mr_token token = start(c.d, with_deadline(request, i == 1 ? in_ms(10) : MR_NO_DEADLINE));
        poll_once(c.d);
        if (i == 0)
            mr_loop_cancel(driver_loop(c.d), token);
        if (i == 2)
            CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
        CHECK_EQ(finish(c.d, token).result, errors[i]);
        driver_free(c.d);
    }
}

static void a_broken_pipe_raises_no_signal(void)
{
    connection c = local_connection();
    int file = pattern_file();
    let_broken_pipes_kill();
    hang_up(c.peer);
    check_broken(first_refusal(c.d, send_file_request(c.handle, file, 0, 100)));
    driver_free(c.d);
}

/* Shuts a socket down while another thread sends on it. */
typedef struct shutter {
    int number;
    unsigned delay; /* in turns of a loop */
    atomic_bool go;
} shutter;

static void *shut_after_delay(void *argument)
{
    shutter *s = argument;
    while (!atomic_load(&s->go))
        ;
    for (volatile unsigned i = 0; i < s->delay; i++)
        ;
    end_stream(s->number);
    return NULL;
}

static void send_while_it_is_shut(driver *d, int file, unsigned delay)
{
    int pair[2];
    pthread_t thread;
    mr_completion completion;
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    shutter s = {.number = pair[0], .delay = delay};
    start_thread(&thread, shut_after_delay, &s);
    atomic_store(&s.go, true);
    CHECK(!submit(d, with_flags(send_file_request(handle, file, 0, STEP_MAX), MR_NOW), &completion));
    if (completion.result < 0)
        check_broken(completion.result);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(perform(d, close_request(handle)).result, 0);
    hang_up(pair[1]);
}

/* The pipe breaks while one call sends several pieces. Most rounds miss that moment. */
static void a_pipe_that_breaks_halfway_raises_no_signal(void)
{
    driver *d = driver_new();
    int file = pattern_file();
    uint64_t random = 11;
    let_broken_pipes_kill();
    for (unsigned round = 0; round < harness_rounds(400); round++)
        send_while_it_is_shut(d, file, harness_random(&random) % 100000);
    driver_free(d);
}

static void now_does_not_wait(void)
{
    connection c = tcp_connection();
    int file = pattern_file();
    mr_completion completion;
    CHECK(!submit(c.d, with_flags(send_file_request(c.handle, file, 0, 100), MR_NOW), &completion));
    CHECK_EQ(completion.result, 100);
    fill(c.number);
    CHECK(!submit(c.d, with_flags(send_file_request(c.handle, file, 0, 100), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    driver_free(c.d);
}

static void a_closed_file_is_an_error(void)
{
    connection c = local_connection();
    int file = pattern_file();
    close_file(file);
    CHECK_EQ(perform(c.d, send_file_request(c.handle, file, 0, 100)).result, -EBADF);
    driver_free(c.d);
}

static void its_errors_tell_of_the_file_or_of_the_connection(void)
{
    connection c = local_connection();
    int file = file_with("hello", 5);
    CHECK(mr_is_error_of_file(perform(c.d, send_file_request(c.handle, file, UINT64_MAX, 1)).result));
    let_broken_pipes_kill();
    hang_up(c.peer);
    int64_t result = first_refusal(c.d, send_file_request(c.handle, file, 0, 5));
    check_broken(result);
    CHECK(!mr_is_error_of_file(result));
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    result = perform(c.d, send_file_request(c.handle, file, 0, 5)).result;
    CHECK_EQ(result, -EBADF);
    CHECK(!mr_is_error_of_file(result));
    CHECK(!mr_is_error_of_file(-ETIMEDOUT));
    CHECK(!mr_is_error_of_file(0));
    CHECK(mr_is_error_of_file(-EIO));
    driver_free(c.d);
    close_file(file);
}

static void an_offset_that_no_file_has_is_refused(void)
{
    connection c = local_connection();
    int file = file_with("abc", 3);
    CHECK_EQ(perform(c.d, send_file_request(c.handle, file, UINT64_MAX, 1)).result, -EINVAL);
    driver_free(c.d);
}

/* The files of these tests are in memory, so they are sent whether or not the system can say that. */
static void what_is_in_memory_is_sent(void)
{
    connection c = local_connection();
    int file = pattern_file();
    CHECK_EQ(perform(c.d, with_flags(send_file_request(c.handle, file, 1000, 500), MR_CACHED)).result, 500);
    CHECK_EQ(perform(c.d, with_flags(send_file_request(c.handle, file, FILE_SIZE - 10, 500), MR_CACHED)).result, 10);
    CHECK_EQ(perform(c.d, with_flags(send_file_request(c.handle, file, FILE_SIZE, 500), MR_CACHED)).result, 0);
    CHECK_EQ(mr_file_cache_state(file, 0, 0), MR_IN_CACHE);
    driver_free(c.d);
}

const conform_case send_file_cases[] = {
    CASE(a_whole_file_in_steps),
    CASE(a_part_of_a_file),
    CASE(it_waits_until_writable),
    CASE(it_can_be_ended),
    CASE(a_broken_pipe_raises_no_signal),
    CASE(a_pipe_that_breaks_halfway_raises_no_signal),
    CASE(now_does_not_wait),
    CASE(a_closed_file_is_an_error),
    CASE(its_errors_tell_of_the_file_or_of_the_connection),
    CASE(an_offset_that_no_file_has_is_refused),
    CASE(what_is_in_memory_is_sent),
    {0},
};
