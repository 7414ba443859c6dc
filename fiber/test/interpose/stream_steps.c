/* stream_steps.c: a stream of a file does the same, step by step, as on a thread. */
#include "stream_test.h"

enum { STEPS = 400, BUFFER_BYTES = 256, PIECE_BYTES_MAX = 900 };

/* What the program and other processes see after each step on a file. */
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

/* From a new stream of a file to behind its end. */
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

/* Also into a stream that was not read yet, which has no buffer. */
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

const fiber_case stream_steps_cases[] = {
    CASE(every_step_has_the_effect_it_has_on_a_thread),
    CASE(files_that_are_read_as_memory),
    CASE(what_is_pushed_back_is_read_as_on_a_thread),
    {0},
};
