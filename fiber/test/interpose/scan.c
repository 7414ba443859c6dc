/* scan.c: formatted input and the functions that it uses: they must not block a carrier, and do what libc does. */
#include "interpose_test.h"

#include <locale.h>
#include <pthread.h>
#include <sys/socket.h>

/* The headers map fscanf to C99's version. This is the old one. */
int old_fscanf(FILE *, const char *, ...) __asm__("fscanf");

static FILE *stream_on(int descriptor, const char *mode)
{
    FILE *stream = fdopen(descriptor, mode);
    CHECK(stream != NULL);
    return stream;
}

/* ---------------------------------------------------------------------------------------- a writer that is slow --- */

enum { PIECES_MAX = 4 };

typedef struct slow_writer {
    int descriptor;
    const char *pieces[PIECES_MAX]; /* the first comes at once */
    pthread_t thread;
} slow_writer;

static void *write_pieces(void *argument)
{
    slow_writer *w = argument;
    for (int i = 1; i < PIECES_MAX && w->pieces[i]; i++) {
        usleep(PAUSE_MS * 1000);
        MUST(write(w->descriptor, w->pieces[i], strlen(w->pieces[i])));
    }
    return NULL;
}

/* Runs `read_all` on one end of a pair while the bytes slowly arrive from the other. */
static void read_from_a_slow_writer(slow_writer w, const char *mode, void *(*read_all)(void *))
{
    pair p = new_pair();
    w.descriptor = p.ends[1];
    FILE *stream = stream_on(p.ends[0], mode);
    MUST(write(w.descriptor, w.pieces[0], strlen(w.pieces[0])));
    CHECK_EQ(pthread_create(&w.thread, NULL, write_pieces, &w), 0);
    must_leave_carrier_free(read_all, stream);
    pthread_join(w.thread, NULL);
    fclose(stream);
    close(p.ends[1]);
}

static void *scan_pieces(void *argument)
{
    FILE *stream = argument;
    int number = 0;
    double real = 0;
    char word[8] = "", end[8] = "";
    CHECK_EQ(fscanf(stream, "%d %lf %7[a-z]", &number, &real, word), 3);
    CHECK_EQ(number, 1234);
    CHECK(real == -2.5e3);
    CHECK_EQ(strcmp(word, "word"), 0);
    CHECK_EQ(fgetc(stream), ';');
    CHECK_EQ(old_fscanf(stream, "%3s", end), 1);
    CHECK_EQ(strcmp(end, "end"), 0);
    return NULL;
}

static void items_that_come_in_pieces(void)
{
    slow_writer w = {.pieces = {"12", "34 -2.5", "e3 word; e", "nd"}};
    read_from_a_slow_writer(w, "r", scan_pieces);
}

static void *read_behind_what_was_pushed_back(void *argument)
{
    FILE *stream = argument;
    CHECK_EQ(fgetc(stream), 'a');
    CHECK_EQ(ungetc('x', stream), 'x');
    CHECK_EQ(fgetc(stream), 'x');
    CHECK_EQ(fgetc(stream), 'b');
    CHECK_EQ(ungetc('y', stream), 'y');
    CHECK_EQ(ungetc('z', stream), 'z');
    char text[8] = "";
    CHECK(fgets(text, 5, stream) != NULL);
    CHECK_EQ(strcmp(text, "zycd"), 0);
    return NULL;
}

static void reading_on_behind_what_was_pushed_back(void)
{
    slow_writer w = {.pieces = {"a", "bcd"}};
    read_from_a_slow_writer(w, "r", read_behind_what_was_pushed_back);
}

static void *ask_and_read(void *argument)
{
    FILE *stream = argument;
    char line[16];
    CHECK_GE(fputs("question\n", stream), 0);
    CHECK_EQ(fflush(stream), 0);
    CHECK(fgets(line, sizeof line, stream) != NULL);
    CHECK_EQ(strcmp(line, "answer\n"), 0);
    return NULL;
}

static void reading_what_was_just_written_to(void)
{
    slow_writer w = {.pieces = {"", "answer\n"}};
    read_from_a_slow_writer(w, "r+", ask_and_read);
}

/* ------------------------------------------------------------------------------------------------- as libc does --- */

enum { ARGUMENTS = 4, ARGUMENT_BYTES = 128, LONG_INPUT = 10000 };

typedef struct scanning {
    int (*scan)(FILE *, const char *, ...);
    const char *input, *format;
    int buffering;
    size_t buffer_size;
    int pushed_back; /* a character, or 0 */
    struct {
        int matched, error, at_end, failed;
        char arguments[ARGUMENTS][ARGUMENT_BYTES];
        char rest[32];
    } seen;
} scanning;

static void *perform_scanning(void *argument)
{
    scanning *s = argument;
    int ends[2];
    char buffer[BUFSIZ];
    MUST(pipe(ends));
    MUST(write(ends[1], s->input, strlen(s->input)));
    close(ends[1]);
    FILE *stream = stream_on(ends[0], "r");
    CHECK_EQ(setvbuf(stream, buffer, s->buffering, s->buffer_size), 0);
    if (s->pushed_back)
        CHECK_EQ(ungetc(s->pushed_back, stream), s->pushed_back);
    errno = 0;
    s->seen.matched = s->scan(stream, s->format, s->seen.arguments[0], s->seen.arguments[1], s->seen.arguments[2],
                              s->seen.arguments[3]);
    s->seen.error = errno;
    s->seen.at_end = feof(stream);
    s->seen.failed = ferror(stream);
    size_t size = fread(s->seen.rest, 1, sizeof s->seen.rest - 1, stream);
    if (size == 0)
        s->seen.rest[0] = (char)EOF;
    fclose(stream);
    return NULL;
}

static void compare_scannings(scanning s)
{
    scanning on_thread = s, here = s;
    perform_scanning(&on_thread);
    on_fiber(perform_scanning, &here);
    if (memcmp(&on_thread.seen, &here.seen, sizeof here.seen) != 0)
        printf("\"%.20s\" as \"%s\", %zu bytes of buffer: %d and \"%s\", libc %d and \"%s\"\n", s.input, s.format,
               s.buffer_size, here.seen.matched, here.seen.rest, on_thread.seen.matched, on_thread.seen.rest);
    CHECK_MEMORY(&here.seen, &on_thread.seen, sizeof here.seen);
}

static void compare_in_all_buffers(const char *input, const char *format)
{
    static const size_t sizes[] = {1, 2, 5, BUFSIZ};
    scanning s = {.input = input, .format = format};
    for (int dialect = 0; dialect < 2; dialect++) {
        s.scan = dialect ? old_fscanf : fscanf;
        for (int pushed_back = 0; pushed_back < 2; pushed_back++) {
            s.pushed_back = pushed_back ? '7' : 0;
            s.buffering = _IOFBF;
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                s.buffer_size = sizes[i];
                compare_scannings(s);
            }
            s.buffering = _IONBF;
            compare_scannings(s);
        }
    }
}

static void what_is_matched_and_what_is_left(void)
{
    static char longer[LONG_INPUT + 8];
    static const char *const cases[][2] = {
        {"12 34", "%d%d"},
        {"12abc", "%d%d"},
        {"  x", "%c%c%n"},
        {"hello world", "%3s%n%s"},
        {"0x1fg", "%i%c"},
        {"0xg", "%i%c"},
        {"1e5 1e+ 7", "%lf%lf"},
        {"inf nan infinix", "%f%f%f"},
        {"[abc]]", "[%[a-c]]%n"},
        {"abc123", "%*[a-z]%d"},
        {"", "%d"},
        {"   ", "%d"},
        {"50%!", "%d%%%n"},
        {"1,2;3", "%d,%d,%d"},
        {"-", "%d"},
        {"-x", "%d"},
        {"12345678901234567890123 4", "%d%d"},
        {"0x1.8p3z", "%la%c"},
        {"word another", "%100c"},
        {"a\n\n  b", "%*c %c"},
        {"12", "%5d"},
        {"123456", "%3d%n%2d"},
        {"\xc3\xa9\xe2\x82\xacx.", "%2ls%c"},
        {"\xc3", "%lc"},
        {"1'234", "%'d%c"},
        {"17", "%y"},
        {"-7", "%u"},
        {"+0x7fffffffffffffff", "%li"},
    };
    CHECK(setlocale(LC_ALL, "C.UTF-8") != NULL);
    memset(longer, 'x', LONG_INPUT);
    strcpy(longer + LONG_INPUT, "42!");
    compare_in_all_buffers(longer, "%*[x]%d");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare_in_all_buffers(cases[i][0], cases[i][1]);
}

static void *read_lines_without_a_buffer(void *argument)
{
    FILE *stream = tmpfile();
    char *line = (char *)argument;
    size_t size = 0;
    CHECK(stream != NULL);
    CHECK_GE(fputs("line\n", stream), 0);
    rewind(stream);
    CHECK_EQ(getline(&line, &size, stream), 5);
    CHECK_EQ(strcmp(line, "line\n"), 0);
    CHECK_GT(size, 5);
    free(line);
    line = NULL;
    size = 0;
    CHECK_EQ(getline(&line, &size, stream), -1);
    CHECK(line != NULL);
    CHECK_GT(size, 0);
    free(line);
    fclose(stream);
    return NULL;
}

/* If the size is 0, the address may be anything. */
static void a_line_without_a_buffer(void)
{
    read_lines_without_a_buffer((void *)8);
    on_fiber(read_lines_without_a_buffer, (void *)8);
}

static void *scan_the_unreadable(void *argument)
{
    int ends[2];
    char byte;
    MUST(pipe(ends));
    FILE *stream = stream_on(ends[1], "w");
    errno = 0;
    CHECK_EQ(fscanf(stream, "%c", &byte), EOF);
    CHECK_EQ(errno, EBADF);
    CHECK(!ferror(stream)); /* it is, after fgetc */
    fclose(stream);
    close(ends[0]);
    stream = fmemopen("31 words", 8, "r"); /* has no descriptor */
    int number = 0;
    CHECK_EQ(fscanf(stream, "%d", &number), 1);
    CHECK_EQ(number, 31);
    CHECK_EQ(fgetc(stream), ' ');
    fclose(stream);
    return argument;
}

static void streams_that_are_libcs(void)
{
    on_fiber(scan_the_unreadable, NULL);
}

static void *scan_until_interrupted(void *argument)
{
    int number;
    errno = 0;
    CHECK_EQ(fscanf(argument, "%d", &number), EOF);
    CHECK_EQ(errno, EINTR);
    CHECK(ferror((FILE *)argument));
    return NULL;
}

static void an_interruption_is_an_error(void)
{
    pair p = new_pair();
    FILE *stream = stream_on(p.ends[0], "r");
    mr_fiber *fiber = spawn(scan_until_interrupted, stream);
    let_fibers_park();
    mr_fiber_interrupt(fiber, EINTR);
    join(fiber);
    fclose(stream);
    close(p.ends[1]);
}

/* --------------------------------------------------------------------------------------- several on one carrier --- */

void _pthread_cleanup_push(struct _pthread_cleanup_buffer *, void (*)(void *), void *);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *, int);

/* The newest cleanup handler of this thread. */
static void *note_cleanup(void *argument)
{
    struct _pthread_cleanup_buffer own;
    _pthread_cleanup_push(&own, free, NULL);
    *(void **)argument = own.__prev;
    _pthread_cleanup_pop(&own, 0);
    return NULL;
}

static void *scan_letter(void *argument)
{
    char letter;
    CHECK_EQ(fscanf(argument, " %c", &letter), 1);
    return NULL;
}

/* libc's record of a scan is on the list of the carrier's thread, which must not keep it after the scan. */
static void scans_that_end_in_the_order_they_began(void)
{
    void *before, *after;
    pair pairs[2] = {new_pair(), new_pair()};
    FILE *streams[2];
    mr_fiber *fibers[2];
    on_fiber(note_cleanup, &before);
    for (int i = 0; i < 2; i++) {
        streams[i] = stream_on(pairs[i].ends[0], "r");
        fibers[i] = spawn(scan_letter, streams[i]);
    }
    let_fibers_park();
    on_fiber(note_cleanup, &after);
    CHECK_EQ(after, before);
    for (int i = 0; i < 2; i++) {
        MUST(write(pairs[i].ends[1], "x", 1));
        join(fibers[i]);
        on_fiber(note_cleanup, &after);
        CHECK_EQ(after, before);
        fclose(streams[i]);
        close(pairs[i].ends[1]);
    }
}

const fiber_case scan_cases[] = {
    CASE(items_that_come_in_pieces),
    CASE(reading_on_behind_what_was_pushed_back),
    CASE(reading_what_was_just_written_to),
    CASE(what_is_matched_and_what_is_left),
    CASE(a_line_without_a_buffer),
    CASE(streams_that_are_libcs),
    CASE(an_interruption_is_an_error),
    CASE(scans_that_end_in_the_order_they_began),
    {0},
};
