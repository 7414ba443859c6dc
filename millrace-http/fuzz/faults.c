/*
 * faults.c - a target's corpus once more, and each allocation of the code under test fails in turn: nothing crashes,
 * hangs or leaks, and what the target checks still holds. In the objects of that code malloc, calloc and realloc have
 * the names of the functions here; libnghttp2 allocates through them, too. It has no allocator for options and
 * callbacks, so those calls fail as a whole.
 *   faults FILE... of each file the last allocation, and some drawn by chance; FAULTS=all: every one; FAULTS=20: so
 *   many
 */
#include <nghttp2/nghttp2.h>
#include <sanitizer/lsan_interface.h>
#include <signal.h>
#include <unistd.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Without FAULTS: in all, and for each file. */
enum { RUNS = 1200, SAMPLE = 12 };

static struct {
    const char *file;
    size_t count, failing; /* the number of the allocation that fails, from 1 on; 0: none */
} now;

static int fails(void)
{
    return ++now.count == now.failing;
}

int fault_has_happened(void)
{
    return now.failing > 0 && now.count >= now.failing;
}

void *fault_malloc(size_t size);
void *fault_calloc(size_t count, size_t size);
void *fault_realloc(void *memory, size_t size);

void *fault_malloc(size_t size)
{
    return fails() ? NULL : malloc(size);
}

void *fault_calloc(size_t count, size_t size)
{
    return fails() ? NULL : calloc(count, size);
}

void *fault_realloc(void *memory, size_t size)
{
    return fails() ? NULL : realloc(memory, size);
}

/* Without the allocator of a session. */
int fault_nghttp2_option_new(nghttp2_option **option);
int fault_nghttp2_session_callbacks_new(nghttp2_session_callbacks **callbacks);

int fault_nghttp2_option_new(nghttp2_option **option)
{
    return fails() ? NGHTTP2_ERR_NOMEM : nghttp2_option_new(option);
}

int fault_nghttp2_session_callbacks_new(nghttp2_session_callbacks **callbacks)
{
    return fails() ? NGHTTP2_ERR_NOMEM : nghttp2_session_callbacks_new(callbacks);
}

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "handle_abort=1";
}

void __asan_on_error(void);
void __asan_on_error(void)
{
    fprintf(stderr, "in %s, allocation %zu of %zu failed\n", now.file, now.failing, now.count);
}

/* A run that hangs is reported as an error is. */
static void on_alarm(int signal)
{
    (void)signal;
    abort();
}

/* How many allocations it made. */
static size_t run(const uint8_t *bytes, size_t size, size_t failing)
{
    now.count = 0;
    now.failing = failing;
    alarm(60);
    LLVMFuzzerTestOneInput(bytes, size);
    alarm(0);
    if (__lsan_do_recoverable_leak_check()) {
        __asan_on_error();
        exit(1);
    }
    return now.count;
}

static size_t run_all(const uint8_t *bytes, size_t size)
{
    size_t failing = 0;
    while (run(bytes, size, failing + 1) > failing)
        failing++;
    return failing;
}

static size_t run_some(const uint8_t *bytes, size_t size, size_t most)
{
    uint32_t seed = (uint32_t)size;
    run(bytes, size, 0); /* makes what is made once for all inputs */
    size_t count = run(bytes, size, 0), runs = count < most ? count : most;
    for (size_t i = 0; i < runs; i++) {
        seed = seed * 1664525u + 1013904223u;
        run(bytes, size, count <= most || i == 0 ? count - i : 1 + (seed >> 8) % count);
    }
    return runs;
}

int main(int argc, char **argv)
{
    static uint8_t bytes[1 << 16];
    const char *wanted = getenv("FAULTS");
    int is_all = wanted != NULL && strcmp(wanted, "all") == 0;
    size_t files = argc > 1 ? (size_t)argc - 1 : 1, most = RUNS / files < SAMPLE ? 1 + RUNS / files : SAMPLE, runs = 0;
    if (wanted != NULL && !is_all)
        most = strtoul(wanted, NULL, 10);
    signal(SIGALRM, on_alarm);
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        CHECK(file != NULL);
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        now.file = argv[i];
        runs += is_all ? run_all(bytes, size) : run_some(bytes, size, most);
    }
    printf("%d inputs, %zu allocations failed\n", argc - 1, runs);
    return 0;
}
