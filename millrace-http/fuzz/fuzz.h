/*
 * fuzz.h - what the fuzz targets share: input in pieces, each in memory of exactly its size, so that the address
 * sanitizer sees every read beyond it. Must not know: HTTP.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: violated: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                  \
        }                                                                             \
    } while (0)

/* Whether an allocation of the code under test has failed during this input. Only with faults.c. */
extern int fault_has_happened(void) __attribute__((weak));

/* A copy in separate memory; never NULL. */
static inline uint8_t *exact_copy(const uint8_t *bytes, size_t length)
{
    uint8_t *copy = malloc(length > 0 ? length : 1);
    CHECK(copy != NULL);
    if (length > 0)
        memcpy(copy, bytes, length);
    return copy;
}

/* How long the next piece of the input is: pseudo-random, from 1 to 64 bytes, often just 1. */
static inline size_t piece_length(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    uint32_t bits = *seed >> 16;
    return bits & 1 ? 1 : 1 + (bits >> 1) % 64;
}

#endif
