/* tls_record_buffer.c - memory for several sealed records. Must not know: system calls, sockets.
 *
 * A few freed pieces are kept for the next use, because malloc would return memory of this size to the system again and
  * again. */
#include "tls_internal.h"

#include <stdlib.h>

enum { KEPT_MAX = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *kept[KEPT_MAX];
static size_t kept_count;

uint8_t *tls_record_buffer_alloc(void)
{
    (void)pthread_mutex_lock(&lock);
    uint8_t *buffer = kept_count > 0 ? kept[--kept_count] : NULL;
    (void)pthread_mutex_unlock(&lock);
    return buffer ? buffer : malloc(TLS_RECORD_BUFFER_SIZE);
}

void tls_record_buffer_free(uint8_t *buffer)
{
    if (!buffer)
        return;
    (void)pthread_mutex_lock(&lock);
    bool is_kept = kept_count < KEPT_MAX;
    if (is_kept)
        kept[kept_count++] = buffer;
    (void)pthread_mutex_unlock(&lock);
    if (!is_kept)
        free(buffer);
}
