/* tls_bio.c - how OpenSSL reads and writes: from and to the connection's own memory. Must not know: system calls,
 * sockets. */
#include "tls_internal.h"

#include "millrace_check.h"

#include <string.h>

static int read_input(BIO *bio, char *to, size_t capacity, size_t *count)
{
    tls_connection *connection = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t taken = tls_bytes_take(&connection->kept_in, (uint8_t *)to, capacity);
    if (taken == 0 && connection->in_left > 0) {
        taken = connection->in_left < capacity ? connection->in_left : capacity;
        memcpy(to, connection->in, taken);
        connection->in += taken;
        connection->in_left -= taken;
    }
    *count = taken;
    if (taken > 0)
        return 1;
    connection->is_starved = true;
    BIO_set_retry_read(bio);
    return 0;
}

/* Takes all bytes, so OpenSSL never has to write again: bytes that do not fit into the caller's memory are kept. */
static int write_output(BIO *bio, const char *from, size_t count, size_t *written)
{
    tls_connection *connection = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *written = count;
    MR_CHECK(connection->out_count <= connection->out_capacity);
    if (tls_bytes_count(&connection->kept_out) == 0 && count <= connection->out_capacity - connection->out_count) {
        memcpy(connection->out + connection->out_count, from, count);
        connection->out_count += count;
        return 1;
    }
    if (tls_bytes_append(&connection->kept_out, (const uint8_t *)from, count))
        return 1;
    connection->is_without_memory = true;
    *written = 0;
    return 0;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "millrace");
    if (!made)
        return;
    BIO_meth_set_read_ex(made, read_input);
    BIO_meth_set_write_ex(made, write_output);
    BIO_meth_set_ctrl(made, control);
    method = made;
}

BIO *tls_bio_new(tls_connection *connection)
{
    (void)pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!bio)
        return NULL;
    BIO_set_data(bio, connection);
    BIO_set_init(bio, 1);
    return bio;
}
