/* stream.c: writing to stdio streams must not block a carrier, and must do what libc does. */
#include "stream_test.h"

static void print_to_a_slow_reader(int writer, int reader, int buffering)
{
    slow_reader slow = {.descriptor = reader};
    size_t filled = fill_up(writer);
    FILE *stream = fdopen(writer, "w");
    CHECK(stream != NULL);
    CHECK_EQ(setvbuf(stream, NULL, buffering, BUFSIZ), 0);
    CHECK_EQ(pthread_create(&slow.thread, NULL, read_later, &slow), 0);
    must_leave_carrier_free(print_much, stream);
    pthread_join(slow.thread, NULL);
    CHECK_EQ(slow.bytes, filled + LINES * 14);
    close(reader);
}

static void printing_into_a_full_pipe(void)
{
    int ends[2];
    MUST(pipe(ends));
    print_to_a_slow_reader(ends[1], ends[0], _IOFBF);
}

static void printing_lines_into_a_full_socket(void)
{
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    print_to_a_slow_reader(ends[1], ends[0], _IOLBF);
}

enum { WRITERS = 4, LINES_EACH = 2000, LINE_BYTES = 60 };

typedef struct printer {
    FILE *stream;
    int letter;
} printer;

static void *print_lines(void *argument)
{
    printer *p = argument;
    char line[LINE_BYTES + 1];
    memset(line, p->letter, LINE_BYTES);
    line[LINE_BYTES - 1] = '\n';
    line[LINE_BYTES] = 0;
    for (int i = 0; i < LINES_EACH; i++)
        CHECK_GE(fputs(line, p->stream), 0);
    return NULL;
}

static void *read_whole_lines(void *argument)
{
    FILE *stream = argument;
    char line[2 * LINE_BYTES];
    for (int i = 0; i < WRITERS * LINES_EACH; i++) {
        CHECK(fgets(line, sizeof line, stream) != NULL);
        CHECK_EQ(strlen(line), LINE_BYTES);
        for (int at = 1; at < LINE_BYTES - 1; at++)
            CHECK_EQ(line[at], line[0]);
    }
    return NULL;
}

/* The stream stays locked while one of them waits to write. */
static void lines_of_several_fibers_stay_whole(void)
{
    int ends[2];
    mr_fiber *fibers[WRITERS];
    printer printers[WRITERS];
    MUST(pipe(ends));
    FILE *to = fdopen(ends[1], "w"), *from = fdopen(ends[0], "r");
    CHECK(to != NULL && from != NULL);
    for (int i = 0; i < WRITERS; i++) {
        printers[i] = (printer){.stream = to, .letter = 'a' + i};
        fibers[i] = spawn(print_lines, &printers[i]);
    }
    mr_fiber *reader = spawn(read_whole_lines, from);
    for (int i = 0; i < WRITERS; i++)
        join(fibers[i]);
    CHECK_EQ(fclose(to), 0);
    join(reader);
    fclose(from);
}

static void *ask_for_a_line(void *argument)
{
    char line[16];
    CHECK_EQ(printf("name? "), 6);
    CHECK(fgets(line, sizeof line, (FILE *)argument) != NULL);
    CHECK_EQ(strcmp(line, "x\n"), 0);
    return NULL;
}

/* What is read is a terminal, which a stream knows only when it has its buffer. */
static void a_question_is_shown_before_its_answer_is_read(void)
{
    int user, terminal, shown[2], standard_output = MUST(dup(STDOUT_FILENO));
    char text[16] = "";
    MUST(openpty(&user, &terminal, NULL, NULL, NULL));
    MUST(pipe(shown));
    fflush(stdout);
    MUST(dup2(shown[1], STDOUT_FILENO));
    CHECK_EQ(setvbuf(stdout, NULL, _IOLBF, BUFSIZ), 0);
    FILE *stream = fdopen(terminal, "r");
    CHECK(stream != NULL);
    mr_fiber *fiber = spawn(ask_for_a_line, stream);
    let_fibers_park();
    CHECK_EQ(poll(&(struct pollfd){.fd = shown[0], .events = POLLIN}, 1, 0), 1);
    CHECK_EQ(read(shown[0], text, sizeof text), 6);
    CHECK_EQ(strcmp(text, "name? "), 0);
    MUST(write(user, "x\n", 2));
    join(fiber);
    MUST(dup2(standard_output, STDOUT_FILENO));
    fclose(stream);
    close(user);
    close(shown[0]);
    close(shown[1]);
    close(standard_output);
}

typedef struct vain_attempt {
    FILE *stream;
    size_t put_by_fwrite;
} vain_attempt;

/* fprintf and fputs fail when the line cannot be written. fwrite returns the full count before glibc 2.43, and 0
   since. */
static void *print_lines_in_vain(void *argument)
{
    vain_attempt *attempt = argument;
    FILE *stream = attempt->stream;
    CHECK_EQ(setvbuf(stream, NULL, _IOLBF, BUFSIZ), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(fprintf(stream, "a line\n"), -1);
        CHECK_EQ(errno, EPIPE);
    }
    CHECK_EQ(fputs("a line\n", stream), EOF);
    attempt->put_by_fwrite = fwrite("a line\n", 1, 7, stream);
    return argument;
}

static void printing_lines_that_cannot_be_written(void)
{
    int ends[2];
    vain_attempt attempts[2];
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        MUST(pipe(ends));
        MUST(close(ends[0]));
        attempts[i].stream = fdopen(ends[1], "w");
        i ? on_fiber(print_lines_in_vain, &attempts[i]) : print_lines_in_vain(&attempts[i]);
        fclose(attempts[i].stream);
    }
    CHECK_EQ(attempts[1].put_by_fwrite, attempts[0].put_by_fwrite);
    CHECK_EQ(attempts[1].put_by_fwrite, is_glibc_since(2, 43) ? 0 : 7);
}

const fiber_case stream_cases[] = {
    CASE(printing_into_a_full_pipe),
    CASE(printing_lines_into_a_full_socket),
    CASE(lines_of_several_fibers_stay_whole),
    CASE(a_question_is_shown_before_its_answer_is_read),
    CASE(printing_lines_that_cannot_be_written),
    {0},
};
