/*
 * faults.c - a target's corpus once more, and each allocation of the code under test fails in turn: nothing crashes, hangs or leaks,
 * and what the target checks still holds. In the objects of that code malloc, calloc and realloc have the names of the functions
 * here; libnghttp2 allocates through them, too. It has no allocator for options and callbacks, so those calls fail as a whole.
 *   faults FILE...         some allocations of each file, drawn by chance; FAULTS=all: every one
 */
#include <nghttp2/nghttp2.h>
#include <sanitizer/lsan_interface.h>
#include <unistd.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { SAMPLE = 12 };

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

/* How many allocations it made. */
static size_t run(const uint8_t *bytes, size_t size, size_t failing)
{
    now.count = 0;
    now.failing = failing;
    alarm(20);
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

static size_t run_some(const uint8_t *bytes, size_t size)
{
    uint32_t seed = (uint32_t)size;
    size_t count = run(bytes, size, 0), runs = count < SAMPLE ? count : SAMPLE;
    for (size_t i = 0; i < runs; i++) {
        seed = seed * 1664525u + 1013904223u;
        run(bytes, size, count <= SAMPLE ? i + 1 : 1 + (seed >> 8) % count);
    }
    return runs;
}

int main(int argc, char **argv)
{
    static uint8_t bytes[1 << 16];
    const char *wanted = getenv("FAULTS");
    size_t runs = 0;
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        CHECK(file != NULL);
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        now.file = argv[i];
        runs += wanted && strcmp(wanted, "all") == 0 ? run_all(bytes, size) : run_some(bytes, size);
    }
    printf("%d inputs, %zu allocations failed\n", argc - 1, runs);
    return 0;
}
