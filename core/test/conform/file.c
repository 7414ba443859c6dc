/* file.c: MR_READ_FILE, MR_WRITE_FILE and MR_SYNC_FILE. */
#include "conform.h"

enum { LARGE = 3 << 20, SMALL = 300000, STEP_MAX = 1 << 20 };

/* A new loop and a file. */
typedef struct opened {
    driver *d;
    int number;
    mr_handle handle;
} opened;

static opened open_file(const void *data, size_t size)
{
    opened f = {.d = driver_new(), .number = file_with(data, size)};
    f.handle = adopt(f.d, f.number);
    return f;
}

static opened open_pattern(size_t size)
{
    unsigned char *data = malloc(size);
    fill_pattern(data, 0, size);
    opened f = open_file(data, size);
    free(data);
    return f;
}

static void close_opened(opened *f)
{
    CHECK_EQ(perform(f->d, close_request(f->handle)).result, 0);
    driver_free(f->d);
}

static mr_request file_request(mr_kind kind, const opened *f, const void *buffer, size_t size, uint64_t offset)
{
    static uint64_t serial;
    return (mr_request){.kind = kind,
                        .handle = f->handle,
                        .buffer = (void *)(uintptr_t)buffer,
                        .length = size,
                        .offset = offset,
                        .user_data = 500 + ++serial};
}

static int64_t read_at(opened *f, void *buffer, size_t size, uint64_t offset)
{
    mr_completion completion = perform(f->d, file_request(MR_READ_FILE, f, buffer, size, offset));
    CHECK_EQ(completion.transferred, completion.result < 0 ? 0 : completion.result);
    return completion.result;
}

static int64_t write_at(opened *f, const void *data, size_t size, uint64_t offset)
{
    return perform(f->d, file_request(MR_WRITE_FILE, f, data, size, offset)).result;
}

static void reading_a_whole_file(void)
{
    opened f = open_pattern(LARGE);
    unsigned char *buffer = malloc(LARGE);
    uint64_t position = 0;
    int64_t size;
    while ((size = read_at(&f, buffer, LARGE, position)) > 0) {
        CHECK_LE(size, STEP_MAX);
        check_pattern(buffer, position, (size_t)size);
        position += (uint64_t)size;
    }
    CHECK_EQ(size, 0);
    CHECK_EQ(position, LARGE);
    CHECK_EQ(file_position(f.number), LARGE); /* where the thread that wrote the file has left it */
    free(buffer);
    close_opened(&f);
}

static void reading_a_part(void)
{
    opened f = open_pattern(SMALL);
    unsigned char buffer[1000];
    CHECK_EQ(read_at(&f, buffer, 500, 12345), 500);
    check_pattern(buffer, 12345, 500);
    CHECK_EQ(read_at(&f, buffer, sizeof buffer, SMALL - 10), 10);
    check_pattern(buffer, SMALL - 10, 10);
    CHECK_EQ(read_at(&f, buffer, sizeof buffer, SMALL + 10), 0);
    close_opened(&f);
}

static void writing_and_reading_again(void)
{
    opened f = open_file("abcdef", 6);
    char buffer[20];
    CHECK_EQ(write_at(&f, "XY", 2, 2), 2);
    CHECK_EQ(write_at(&f, "Z", 1, 8), 1); /* beyond the end: zeros in between */
    CHECK_EQ(perform(f.d, file_request(MR_SYNC_FILE, &f, NULL, 0, 0)).result, 0);
    CHECK_EQ(read_at(&f, buffer, sizeof buffer, 0), 9);
    CHECK_MEMORY(buffer, "abXYef\0\0Z", 9);
    CHECK_EQ(write_at(&f, "", 0, 100), 0);
    CHECK_EQ(read_at(&f, buffer, sizeof buffer, 9), 0);
    close_opened(&f);
}

static void writing_all(void)
{
    opened f = open_file("", 0);
    unsigned char *data = malloc(LARGE), *again = malloc(LARGE);
    fill_pattern(data, 7, LARGE);
    mr_request request = with_flags(file_request(MR_WRITE_FILE, &f, data, LARGE, 7), MR_ALL);
    CHECK_EQ(perform(f.d, request).result, LARGE);
    for (uint64_t position = 7; position < LARGE + 7;) {
        int64_t size = read_at(&f, again, LARGE, position);
        CHECK_GT(size, 0);
        check_pattern(again, position, (size_t)size);
        position += (uint64_t)size;
    }
    CHECK_EQ(read_at(&f, again, 1, LARGE + 7), 0);
    free(data);
    free(again);
    close_opened(&f);
}

/* Every operation on the file in flight at once, each with its own bytes. */
static void many_at_once(void)
{
    enum { COUNT = 200, SIZE = 1000 };
    opened f = open_pattern(SMALL);
    static unsigned char buffers[COUNT][SIZE];
    mr_token tokens[COUNT];
    bool is_pending[COUNT];
    for (int i = 0; i < COUNT; i++) {
        mr_completion completion;
        is_pending[i] = submit(f.d, file_request(MR_READ_FILE, &f, buffers[i], SIZE, (uint64_t)i * SIZE), &completion);
        tokens[i] = completion.token;
        CHECK(is_pending[i] || completion.result == SIZE);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        if (is_pending[i])
            CHECK_EQ(finish(f.d, tokens[i]).result, SIZE);
        check_pattern(buffers[i], (uint64_t)i * SIZE, SIZE);
    }
    close_opened(&f);
}

/* Whether or not the cancellation is in time, the operation ends once; if it reports success, the work was done. */
static void cancelling(void)
{
    for (int i = 0; i < 50; i++) {
        opened f = open_pattern(SMALL);
        unsigned char byte = 0;
        mr_completion completion;
        if (submit(f.d, file_request(MR_READ_FILE, &f, &byte, 1, 77), &completion)) {
            if (i % 2)
                poll_once(f.d);
            mr_loop_cancel(driver_loop(f.d), completion.token);
            completion = finish(f.d, completion.token);
        }
        CHECK(completion.result == 1 || completion.result == -ECANCELED);
        if (completion.result == 1)
            check_pattern(&byte, 77, 1);
        close_opened(&f);
    }
}

static void now_does_not_wait(void)
{
    opened f = open_pattern(SMALL);
    unsigned char buffer[100];
    mr_completion completion;
    CHECK(!submit(f.d, with_flags(file_request(MR_READ_FILE, &f, buffer, sizeof buffer, 50), MR_NOW), &completion));
    CHECK_EQ(completion.result, sizeof buffer);
    check_pattern(buffer, 50, sizeof buffer);
    close_opened(&f);
}

static void a_closed_file_is_an_error(void)
{
    opened f = open_pattern(SMALL);
    char byte;
    CHECK_EQ(perform(f.d, close_request(f.handle)).result, 0);
    CHECK(!is_open(f.number));
    CHECK_EQ(read_at(&f, &byte, 1, 0), -EBADF);
    CHECK_EQ(write_at(&f, "x", 1, 0), -EBADF);
    CHECK_EQ(perform(f.d, file_request(MR_SYNC_FILE, &f, NULL, 0, 0)).result, -EBADF);
    driver_free(f.d);
}

static void a_socket_is_no_file(void)
{
    connection c = local_connection();
    opened f = {.d = c.d, .number = c.number, .handle = c.handle};
    char byte = 'x';
    write_all(c.peer, "y", 1);
    for (uint64_t offset = 0; offset < 2; offset++) {
        CHECK_EQ(read_at(&f, &byte, 1, offset), -ESPIPE);
        CHECK_EQ(write_at(&f, &byte, 1, offset), -ESPIPE);
    }
    CHECK_EQ(perform(f.d, file_request(MR_SYNC_FILE, &f, NULL, 0, 0)).result, -EINVAL);
    driver_free(c.d);
}

static void requests_without_a_buffer_are_refused(void)
{
    opened f = open_pattern(SMALL);
    CHECK_EQ(read_at(&f, NULL, 1, 0), -EINVAL);
    CHECK_EQ(write_at(&f, NULL, 1, 0), -EINVAL);
    close_opened(&f);
}

/* At the first offset io_uring would read at the file's position, and Windows would write at its end. */
static void offsets_that_no_file_has_are_refused(void)
{
    static const uint64_t offsets[] = {UINT64_MAX, UINT64_MAX - 1, (uint64_t)INT64_MAX + 1};
    opened f = open_pattern(SMALL);
    char byte = 'x';
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        CHECK_EQ(read_at(&f, &byte, 1, offsets[i]), -EINVAL);
        CHECK_EQ(write_at(&f, &byte, 1, offsets[i]), -EINVAL);
    }
    CHECK_EQ(read_at(&f, &byte, 1, SMALL), 0);
    close_opened(&f);
}

const conform_case file_cases[] = {
    CASE(reading_a_whole_file),
    CASE(reading_a_part),
    CASE(writing_and_reading_again),
    CASE(writing_all),
    CASE(many_at_once),
    CASE(cancelling),
    CASE(now_does_not_wait),
    CASE(a_closed_file_is_an_error),
    CASE(a_socket_is_no_file),
    CASE(requests_without_a_buffer_are_refused),
    CASE(offsets_that_no_file_has_are_refused),
    {0},
};
