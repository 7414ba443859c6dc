/* stream.c: writing to stdio's streams, which must not block a carrier and must do what libc does. */
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

/* ------------------------------------------------------------------------------------------ a reader that waits --- */

enum { LINES = 500 };

typedef struct slow_reader {
    int descriptor;
    size_t bytes;
    pthread_t thread;
} slow_reader;

static void *read_later(void *argument)
{
    slow_reader *r = argument;
    char buffer[65536];
    ssize_t count;
    usleep(PAUSE_MS * 1000);
    while ((count = read(r->descriptor, buffer, sizeof buffer)) > 0)
        r->bytes += (size_t)count;
    return NULL;
}

static void *print_much(void *argument)
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

/* Until there is no room; returns how much that was. */
static size_t fill_up(int writer)
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

/* --------------------------------------------------------------------------------------------- lines of several --- */

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

/* The stream stays locked while one of them waits for room. */
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

/* ----------------------------------------------------------------------------------------- step by step as libc --- */

enum { STEPS = 400, BUFFER_BYTES = 256, PIECE_BYTES_MAX = 900 };

/* What a program and others see after each step on a file. */
typedef struct trace {
    const char *mode;
    int buffering;
    char path[64];
    long results[STEPS];
    long sizes[STEPS];
    long positions[STEPS];
} trace;

static unsigned next_number(unsigned *state)
{
    return (*state = *state * 1103515245 + 12345) >> 8;
}

static void fill_with_lines(char *piece, size_t size, unsigned *state)
{
    for (size_t i = 0; i < size; i++)
        piece[i] = next_number(state) % 40 ? (char)('a' + next_number(state) % 26) : '\n';
    piece[size] = 0;
}

static long perform_step(FILE *stream, bool may_read, unsigned *state)
{
    char piece[PIECE_BYTES_MAX + 1];
    size_t size = next_number(state) % 3 ? next_number(state) % 60 : next_number(state) % PIECE_BYTES_MAX;
    fill_with_lines(piece, size, state);
    switch (next_number(state) % (may_read ? 9 : 7)) {
    case 0:
        return fputc(piece[0], stream);
    case 1:
        return fputs(piece, stream) >= 0;
    case 2:
        return fprintf(stream, "%s-%zu", piece, size);
    case 3:
        return fflush(stream);
    case 4:
        return putc('\n', stream);
    case 5:
    case 6:
        return (long)fwrite(piece, 1, size, stream);
    case 7: /* a program may read after it has sought, and write after it has sought again */
        CHECK_EQ(fseek(stream, -(long)(next_number(state) % 50) - 50, SEEK_END), 0);
        size = fread(piece, 1, 10, stream);
        CHECK_EQ(fseek(stream, 0, SEEK_CUR), 0);
        return (long)size;
    default:
        return fseek(stream, (long)(next_number(state) % 100), SEEK_SET);
    }
}

static void *trace_steps(void *argument)
{
    trace *t = argument;
    unsigned state = 7;
    struct stat status;
    FILE *stream = fopen(t->path, t->mode);
    CHECK(stream != NULL);
    CHECK_EQ(setvbuf(stream, NULL, t->buffering, BUFFER_BYTES), 0);
    for (int i = 0; i < STEPS; i++) {
        t->results[i] = perform_step(stream, strchr(t->mode, '+') != NULL, &state);
        CHECK_EQ(fstat(fileno(stream), &status), 0);
        t->sizes[i] = (long)status.st_size;
        t->positions[i] = ftell(stream);
    }
    CHECK_EQ(fclose(stream), 0);
    return NULL;
}

static char *content_of(const char *path, size_t *size)
{
    struct stat status;
    MUST(stat(path, &status));
    *size = (size_t)status.st_size;
    char *content = malloc(*size + 1);
    FILE *file = fopen(path, "r");
    CHECK_EQ(fread(content, 1, *size, file), *size);
    fclose(file);
    return content;
}

/* A file of a hundred letters, to begin with. */
static trace new_trace(const char *mode, int buffering, const char *where)
{
    trace t = {.mode = mode, .buffering = buffering};
    snprintf(t.path, sizeof t.path, "/tmp/millrace-stream-%s-%d", where, (int)getpid());
    FILE *file = fopen(t.path, "w");
    CHECK(file != NULL);
    CHECK_EQ(fprintf(file, "%0100d", 5), 100);
    CHECK_EQ(fclose(file), 0);
    return t;
}

static void compare_traces(const char *mode, int buffering)
{
    trace on_thread = new_trace(mode, buffering, "thread"), on_a_fiber = new_trace(mode, buffering, "fiber");
    size_t expected_size, size;
    trace_steps(&on_thread);
    on_fiber(trace_steps, &on_a_fiber);
    for (int i = 0; i < STEPS; i++) {
        CHECK_EQ(on_a_fiber.results[i], on_thread.results[i]);
        CHECK_EQ(on_a_fiber.sizes[i], on_thread.sizes[i]);
        CHECK_EQ(on_a_fiber.positions[i], on_thread.positions[i]);
    }
    char *expected = content_of(on_thread.path, &expected_size), *content = content_of(on_a_fiber.path, &size);
    CHECK_EQ(size, expected_size);
    CHECK_MEMORY(content, expected, size);
    free(expected);
    free(content);
    unlink(on_thread.path);
    unlink(on_a_fiber.path);
}

static void every_step_has_the_effect_it_has_on_a_thread(void)
{
    static const char *const modes[] = {"w", "a", "r+", "a+"};
    static const int bufferings[] = {_IOFBF, _IOLBF, _IONBF};
    for (int m = 0; m < 4; m++)
        for (int b = 0; b < 3; b++)
            compare_traces(modes[m], bufferings[b]);
}

/* ------------------------------------------------------------------------------------------- mapped into memory --- */

static FILE *open_mapped_file(const char *content)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/millrace-mapped-%d", (int)getpid());
    FILE *stream = fopen(path, "w");
    CHECK(stream != NULL);
    CHECK_GE(fputs(content, stream), 0);
    CHECK_EQ(fclose(stream), 0);
    stream = fopen(path, "rm");
    CHECK(stream != NULL);
    MUST(unlink(path));
    return stream;
}

static void *read_and_rewind(void *argument)
{
    FILE *stream = open_mapped_file("abc");
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(fgetc(stream), 'a');
        CHECK_EQ(fgetc(stream), 'b');
        CHECK_EQ(fseek(stream, 0, SEEK_SET), 0);
    }
    CHECK_EQ(fclose(stream), 0);
    return argument;
}

static void *read_to_the_end(void *argument)
{
    FILE *stream = argument;
    char text[8];
    CHECK_EQ(fread(text, 1, sizeof text, stream), 2);
    CHECK_MEMORY(text, "bc", 2);
    CHECK(feof(stream));
    CHECK(!ferror(stream));
    return NULL;
}

/* The second one was mapped by the thread that read it first: its buffer is the file's memory, not to be written to. */
static void files_that_are_read_as_memory(void)
{
    on_fiber(read_and_rewind, NULL);
    FILE *stream = open_mapped_file("abc");
    CHECK_EQ(fgetc(stream), 'a');
    on_fiber(read_to_the_end, stream);
    CHECK_EQ(fclose(stream), 0);
}

/* ------------------------------------------------------------------------------------------------- pushing back --- */

enum { WALKS = 60, READING_STEPS = 200, PUSHED_MAX = 400 };

typedef struct walk {
    int descriptor;
    unsigned seed;
    int buffering;
    long results[READING_STEPS];
    unsigned sums[READING_STEPS];
    bool ended[READING_STEPS];
    int closed;
} walk;

static unsigned sum_of(const char *bytes, long count)
{
    unsigned sum = 0;
    for (long i = 0; i < count; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    return sum;
}

static long push_back_many(FILE *stream, unsigned count)
{
    long pushed = 0;
    while (count-- && ungetc('p', stream) == 'p')
        pushed++;
    return pushed;
}

static long read_or_push_back(FILE *stream, unsigned *state, char *piece)
{
    unsigned size = next_number(state) % 3 ? next_number(state) % 20 : next_number(state) % PIECE_BYTES_MAX;
    switch (next_number(state) % 8) {
    case 0:
    case 1:
        return fgetc(stream);
    case 2:
        return ungetc('x', stream);
    case 3:
        return push_back_many(stream, next_number(state) % PUSHED_MAX);
    case 4:
        return (long)fread(piece, 1, size, stream);
    case 5:
        return fgets(piece, (int)size + 2, stream) ? (long)strlen(piece) : -1;
    case 6:
        return next_number(state) % 8 ? ftell(stream) : fseek(stream, (long)size, SEEK_SET);
    default:
        piece[0] = (char)fgetc(stream);
        return ungetc(piece[0], stream);
    }
}

/* Of a file, from a new stream to behind its end. */
static void *take_a_walk(void *argument)
{
    walk *w = argument;
    char piece[PIECE_BYTES_MAX + 2] = "";
    unsigned state = w->seed;
    MUST(lseek(w->descriptor, 0, SEEK_SET));
    FILE *stream = fdopen(dup(w->descriptor), "r");
    CHECK(stream != NULL);
    CHECK_EQ(setvbuf(stream, NULL, w->buffering, BUFFER_BYTES), 0);
    for (int i = 0; i < READING_STEPS; i++) {
        w->results[i] = read_or_push_back(stream, &state, piece);
        w->sums[i] = sum_of(piece, (long)sizeof piece);
        w->ended[i] = feof(stream);
    }
    w->closed = fclose(stream); /* since glibc 2.43 it fails if a byte was pushed back before the file's first one */
    return NULL;
}

/* Among others into a stream that was not read yet: there is no buffer then. */
static void what_is_pushed_back_is_read_as_on_a_thread(void)
{
    size_t size = 3000;
    char *content = malloc(size + 1);
    unsigned state = 3;
    FILE *file = tmpfile();
    CHECK(file != NULL && content != NULL);
    fill_with_lines(content, size, &state);
    CHECK_EQ(fwrite(content, 1, size, file), size);
    CHECK_EQ(fflush(file), 0);
    for (unsigned i = 0; i < WALKS; i++) {
        walk on_thread = {.descriptor = fileno(file), .seed = i, .buffering = i % 2 ? _IOFBF : _IONBF};
        walk on_a_fiber = on_thread;
        take_a_walk(&on_thread);
        on_fiber(take_a_walk, &on_a_fiber);
        CHECK_EQ(on_a_fiber.closed, on_thread.closed);
        for (int j = 0; j < READING_STEPS; j++) {
            CHECK_EQ(on_a_fiber.results[j], on_thread.results[j]);
            CHECK_EQ(on_a_fiber.sums[j], on_thread.sums[j]);
            CHECK_EQ(on_a_fiber.ended[j], on_thread.ended[j]);
        }
    }
    fclose(file);
    free(content);
}

/* --------------------------------------------------------------------------------------- questions and answers --- */

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

/* ------------------------------------------------------------------------------------------- printing in vain --- */

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

/* ------------------------------------------------------------------------------------ streams without a lock --- */

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

/* ------------------------------------------------------------------------------------- streams of the program's --- */

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

/* What they write with may wait, and is called by one fiber at a time. */
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

/* ------------------------------------------------------------------------------------------ all streams at once --- */

typedef struct flushing {
    FILE *streams[2];
    int result, error;
} flushing;

static void *flush_everything(void *argument)
{
    flushing *f = argument;
    errno = 0;
    f->result = fflush(NULL);
    f->error = errno;
    return NULL;
}

/* Into a pipe without room, and a stream of wide characters, which libc writes. */
static void flushing_all_streams(void)
{
    int full[2], wide[2];
    char text[16] = "";
    flushing f = {.result = EOF};
    MUST(pipe(full));
    MUST(pipe2(wide, O_NONBLOCK));
    slow_reader slow = {.descriptor = full[0]};
    size_t filled = fill_up(full[1]);
    f.streams[0] = fdopen(full[1], "w");
    f.streams[1] = fdopen(wide[1], "w");
    CHECK_GE(fputs("a line", f.streams[0]), 0);
    CHECK_GE(fputws(L"wide", f.streams[1]), 0);
    CHECK_EQ(pthread_create(&slow.thread, NULL, read_later, &slow), 0);
    must_leave_carrier_free(flush_everything, &f);
    CHECK_EQ(f.result, 0);
    CHECK_EQ(read(wide[0], text, sizeof text), 4);
    CHECK_EQ(strcmp(text, "wide"), 0);
    for (int i = 0; i < 2; i++)
        fclose(f.streams[i]);
    pthread_join(slow.thread, NULL);
    CHECK_EQ(slow.bytes, filled + 6);
    close(full[0]);
    close(wide[0]);
}

/* One that fails does not keep the others from being written. */
static void flushing_a_stream_that_nobody_reads(void)
{
    int gone[2], there[2];
    char text[16];
    flushing f = {.result = 0};
    signal(SIGPIPE, SIG_IGN);
    for (int order = 0; order < 2; order++) {
        MUST(pipe(gone));
        MUST(pipe2(there, O_NONBLOCK));
        close(gone[0]);
        f.streams[order] = fdopen(gone[1], "w");
        f.streams[!order] = fdopen(there[1], "w");
        CHECK_GE(fputs("lost", f.streams[order]), 0);
        CHECK_GE(fputs("kept", f.streams[!order]), 0);
        on_fiber(flush_everything, &f);
        CHECK_EQ(f.result, EOF);
        CHECK_EQ(f.error, EPIPE);
        CHECK(ferror(f.streams[order]));
        CHECK_EQ(read(there[0], text, sizeof text), 4);
        for (int i = 0; i < 2; i++)
            fclose(f.streams[i]);
        close(there[0]);
    }
}

/* While one fiber waits for a stream, to flush it, the other that uses it closes it. */
static void flushing_a_stream_that_is_closed_meanwhile(void)
{
    int ends[2];
    flushing f = {.result = EOF};
    MUST(pipe(ends));
    slow_reader slow = {.descriptor = ends[0]};
    fill_up(ends[1]);
    mr_fiber *writer = spawn(print_much, fdopen(ends[1], "w"));
    let_fibers_park();
    mr_fiber *flusher = spawn(flush_everything, &f);
    let_fibers_park();
    CHECK_EQ(pthread_create(&slow.thread, NULL, read_later, &slow), 0);
    join(writer);
    join(flusher);
    CHECK_EQ(f.result, 0);
    pthread_join(slow.thread, NULL);
    close(ends[0]);
}

static FILE *shared_stream;
static volatile int inside; /* volatile: the header says that flockfile changes nothing the compiler knows */

static void *use_alone(void *argument)
{
    for (int i = 0; i < 10; i++) {
        flockfile(shared_stream);
        flockfile(shared_stream);
        CHECK_EQ(inside, 0);
        inside = 1;
        usleep(1000);
        inside = 0;
        funlockfile(shared_stream);
        CHECK_EQ(inside, 0);
        funlockfile(shared_stream);
    }
    return argument;
}

static void *be_refused(void *argument)
{
    CHECK_NE(ftrylockfile(shared_stream), 0);
    return argument;
}

static void *lock_and_let_another_try(void *argument)
{
    CHECK_EQ(ftrylockfile(shared_stream), 0);
    on_fiber(be_refused, NULL);
    funlockfile(shared_stream);
    return argument;
}

static void flockfile_excludes_other_fibers(void)
{
    mr_fiber *fibers[4];
    shared_stream = tmpfile();
    CHECK(shared_stream != NULL);
    for (int i = 0; i < 4; i++)
        fibers[i] = spawn(use_alone, NULL);
    for (int i = 0; i < 4; i++)
        join(fibers[i]);
    on_fiber(lock_and_let_another_try, NULL);
    fclose(shared_stream);
}

static void *reopen_and_close_locked(void *argument)
{
    FILE *stream = fopen("/dev/null", "w");
    CHECK(stream != NULL);
    flockfile(stream);
    CHECK(freopen("/dev/null", "r", stream) == stream);
    funlockfile(stream);
    flockfile(stream);
    flockfile(stream);
    CHECK_EQ(fclose(stream), 0);
    stream = popen("exit 3", "r");
    CHECK(stream != NULL);
    flockfile(stream);
    CHECK_EQ(WEXITSTATUS(pclose(stream)), 3);
    return argument;
}

static void *use_two_streams(void *argument)
{
    FILE *streams[2];
    for (int i = 0; i < 2; i++)
        CHECK((streams[i] = fopen("/dev/null", "w")) != NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_GE(fputs("line", streams[i]), 0);
        CHECK_EQ(fclose(streams[i]), 0);
    }
    return argument;
}

/* By who has locked it: no helper could have it, and what the next stream at its place is locked by is nobody. */
static void a_locked_stream_is_reopened_and_closed(void)
{
    on_fiber(reopen_and_close_locked, NULL);
    on_fiber(use_two_streams, NULL);
}

static mr_event *may_try;

static void *try_when_told(void *argument)
{
    CHECK_EQ(mr_event_wait(may_try, MR_NO_DEADLINE), 0);
    return be_refused(argument);
}

static void *lock_and_end(void *argument)
{
    flockfile(shared_stream);
    return argument;
}

/* As a thread's, the lock of one that has ended is nobody's to take any more. */
static void a_fiber_that_ends_with_a_locked_stream(void)
{
    shared_stream = tmpfile();
    CHECK(shared_stream != NULL);
    CHECK_EQ(mr_event_create(&may_try), 0);
    mr_fiber *other = spawn(try_when_told, NULL);
    on_fiber(lock_and_end, NULL);
    mr_event_set(may_try);
    join(other);
    mr_event_destroy(may_try);
    funlockfile(shared_stream); /* exit waits for locked streams since glibc 2.41 */
    fclose(shared_stream);
}

static mr_event *has_failed, *may_end;

static void *fail_to_reopen_locked(void *argument)
{
    char path[] = "/tmp/millrace-fiber-XXXXXX";
    int file = MUST(mkstemp(path));
    MUST(close(file));
    FILE *stream = fopen("/dev/null", "r");
    CHECK(stream != NULL);
    flockfile(stream);
    flockfile(stream);
    MUST(unlink(path));
    CHECK(freopen(path, "r", stream) == NULL);
    CHECK_EQ(errno, ENOENT);
    CHECK(!mf_stream_is_held(stream));
    if (!is_glibc_since(2, 41)) { /* it still exists */
        funlockfile(stream);
        funlockfile(stream);
        fclose(stream);
    }
    mr_event_set(has_failed);
    CHECK_EQ(mr_event_wait(may_end, MR_NO_DEADLINE), 0); /* the next stream is used while this fiber exists */
    return argument;
}

/* A failed freopen ends the stream, and its locks with it. The next stream at its address is nobody's: using it does
   not wait until the fiber ends that had locked the first one. */
static void a_locked_stream_is_not_reopened(void)
{
    CHECK_EQ(mr_event_create(&has_failed), 0);
    CHECK_EQ(mr_event_create(&may_end), 0);
    mr_fiber *failing = spawn(fail_to_reopen_locked, NULL);
    CHECK_EQ(mr_event_wait(has_failed, MR_NO_DEADLINE), 0);
    on_fiber(use_two_streams, NULL);
    mr_event_set(may_end);
    join(failing);
    mr_event_destroy(may_end);
    mr_event_destroy(has_failed);
}

const fiber_case stream_cases[] = {
    CASE(printing_into_a_full_pipe),
    CASE(printing_lines_into_a_full_socket),
    CASE(lines_of_several_fibers_stay_whole),
    CASE(every_step_has_the_effect_it_has_on_a_thread),
    CASE(files_that_are_read_as_memory),
    CASE(what_is_pushed_back_is_read_as_on_a_thread),
    CASE(a_question_is_shown_before_its_answer_is_read),
    CASE(printing_lines_that_cannot_be_written),
    CASE(streams_that_nobody_locks),
    CASE(streams_of_memory_leave_errno_alone),
    CASE(streams_of_the_programs_are_locked),
    CASE(streams_of_the_programs_that_fail),
    CASE(flushing_all_streams),
    CASE(flushing_a_stream_that_nobody_reads),
    CASE(flushing_a_stream_that_is_closed_meanwhile),
    CASE(flockfile_excludes_other_fibers),
    CASE(a_locked_stream_is_reopened_and_closed),
    CASE(a_locked_stream_is_not_reopened),
    CASE(a_fiber_that_ends_with_a_locked_stream),
    {0},
};
