/*
 * guard.c - copies of bytes whose end lies right before memory that may not be read: a parser that reads beyond the end
 * is killed by SIGSEGV.
 */
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t mapped_size(size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (length / page + 1) * page;
}

/* A guarded copy, or NULL. */
uint8_t *guard_copy(const uint8_t *bytes, size_t length)
{
    size_t size = mapped_size(length), page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (mprotect(memory + size, page, PROT_NONE) != 0)
        return NULL;
    memcpy(memory + size - length, bytes, length);
    return memory + size - length;
}

void guard_free(uint8_t *copy, size_t length)
{
    size_t size = mapped_size(length), page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(copy + length - size, size + page);
}
