/*
 * tls_bytes.h - a queue of bytes that owns memory only while it holds something. Must not know: OpenSSL.
 */
#ifndef TLS_BYTES_H
#define TLS_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tls_bytes {
    uint8_t *memory;
    size_t start; /* of the bytes in the queue */
    size_t end;
    size_t capacity;
} tls_bytes;

size_t tls_bytes_count(const tls_bytes *bytes);

/* Adds bytes at the end. False without memory: then the queue is unchanged. */
bool tls_bytes_append(tls_bytes *bytes, const uint8_t *from, size_t count);

/* Adds bytes at the front. False without memory: then the queue is unchanged. */
bool tls_bytes_put_back(tls_bytes *bytes, const uint8_t *from, size_t count);

/* Removes at most `capacity` bytes, copies them to `to`, and returns how many. An empty queue frees its memory. */
size_t tls_bytes_take(tls_bytes *bytes, uint8_t *to, size_t capacity);

void tls_bytes_clear(tls_bytes *bytes);

#endif
