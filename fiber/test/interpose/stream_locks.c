/* stream_locks.c: streams without a lock, and streams of the program's (fopencookie). */
#include "stream_test.h"

static int print_by_characters(FILE *stream, const struct printf_info *info, const void *const *arguments)
{
    (void)info;
    (void)arguments;
    CHECK_EQ(fputc('a', stream), 'a');
    CHECK_GE(fputs("b", stream), 0);
    CHECK_EQ(fwrite("c", 1, 1, stream), 1);
    CHECK_EQ(fprintf(stream, "%c", 'd'), 1);
    return 4;
}

static int take_no_argument(const struct printf_info *info, size_t size, int *types, int *sizes)
{
    (void)info;
    (void)size;
    (void)types;
    (void)sizes;
    return 0;
}

static void *print_in_memory(void *argument)
{
    char text[16], *format = argument;
    CHECK_EQ(snprintf(text, sizeof text, format), 6);
    CHECK_EQ(strcmp(text, "<abcd>"), 0);
    return NULL;
}

static void *use_a_stream_of_its_user(void *argument)
{
    FILE *stream = argument;
    char text[8] = "";
    __fsetlocking(stream, FSETLOCKING_BYCALLER);
    flockfile(stream);
    CHECK_GE(fputs("line", stream), 0);
    CHECK_EQ(fflush(stream), 0);
    funlockfile(stream);
    rewind(stream);
    CHECK(fgets(text, sizeof text, stream) != NULL);
    CHECK_EQ(strcmp(text, "line"), 0);
    return NULL;
}

static void streams_that_nobody_locks(void)
{
    static char format[] = "<%W>";
    FILE *file = tmpfile();
    CHECK_EQ(register_printf_specifier('W', print_by_characters, take_no_argument), 0);
    on_fiber(print_in_memory, format);
    on_fiber(use_a_stream_of_its_user, file);
    fclose(file);
}

static void *print_what_went_wrong(void *argument)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    CHECK(stream != NULL);
    errno = ENOENT;
    CHECK_GT(fprintf(stream, "%m"), 0);
    CHECK_GE(fputs(".", stream), 0);
    CHECK_EQ(fwrite(".", 1, 1, stream), 1);
    CHECK_EQ(errno, ENOENT);
    CHECK_EQ(fclose(stream), 0);
#ifndef __SANITIZE_THREAD__ /* its fclose asks for the descriptor */
    CHECK_EQ(errno, ENOENT);
#endif
    CHECK_EQ(strncmp(text, strerror(ENOENT), size - 2), 0);
    free(text);
    return argument;
}

static void *read_memory(void *argument)
{
    char text[8] = "";
    FILE *stream = fmemopen(argument, strlen(argument), "r");
    CHECK(stream != NULL);
    errno = ENOENT;
    CHECK_EQ(fgetc(stream), 'a');
    CHECK(fgets(text, sizeof text, stream) != NULL);
    CHECK_EQ(fgetc(stream), EOF);
    CHECK_EQ(errno, ENOENT);
    fclose(stream);
    return NULL;
}

/* That a stream has no descriptor is no error. */
static void streams_of_memory_leave_errno_alone(void)
{
    static char text[] = "a line";
    on_fiber(print_what_went_wrong, NULL);
    on_fiber(read_memory, text);
}

typedef struct notebook {
    char text[512];
    size_t length;
    bool is_open;
} notebook;

static ssize_t write_slowly_into_notebook(void *cookie, const char *from, size_t size)
{
    notebook *n = cookie;
    CHECK(!n->is_open);
    n->is_open = true;
    usleep(1000);
    CHECK_LE(n->length + size, sizeof n->text);
    memcpy(n->text + n->length, from, size);
    n->length += size;
    n->is_open = false;
    return (ssize_t)size;
}

static void *print_into_notebook(void *argument)
{
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(fprintf(argument, "%s %d\n", "line", i), 7);
        CHECK_EQ(fprintf(argument, "%c.", 0), 2);
        CHECK_GE(fputs("-", argument), 0);
    }
    return NULL;
}

/* Their write functions may wait, and only one fiber at a time calls them. */
static void streams_of_the_programs_are_locked(void)
{
    notebook n = {.length = 0};
    mr_fiber *fibers[3];
    FILE *stream = fopencookie(&n, "w", (cookie_io_functions_t){.write = write_slowly_into_notebook});
    CHECK(stream != NULL);
    CHECK_EQ(setvbuf(stream, NULL, _IONBF, 0), 0);
    for (int i = 0; i < 3; i++)
        fibers[i] = spawn(print_into_notebook, stream);
    for (int i = 0; i < 3; i++)
        join(fibers[i]);
    CHECK_EQ(fclose(stream), 0);
    CHECK_EQ(n.length, 3 * 5 * 10);
}

static ssize_t write_nothing(void *cookie, const char *from, size_t size)
{
    (void)cookie, (void)from, (void)size;
    errno = ENOSPC;
    return 0; /* an error (fopencookie(3)) */
}

static void *print_lines_into_nothing(void *argument)
{
    FILE *stream = fopencookie(argument, "w", (cookie_io_functions_t){.write = write_nothing});
    CHECK(stream != NULL);
    CHECK_EQ(setvbuf(stream, NULL, _IOLBF, 64), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(fprintf(stream, "a %s\n", "line"), -1);
        CHECK_EQ(errno, ENOSPC);
    }
    fclose(stream);
    return NULL;
}

static void streams_of_the_programs_that_fail(void)
{
    print_lines_into_nothing(NULL);
    on_fiber(print_lines_into_nothing, NULL);
}

const fiber_case stream_locks_cases[] = {
    CASE(streams_that_nobody_locks),
    CASE(streams_of_memory_leave_errno_alone),
    CASE(streams_of_the_programs_are_locked),
    CASE(streams_of_the_programs_that_fail),
    {0},
};
