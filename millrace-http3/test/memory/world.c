/* world.c: see world.h: time, the link, and the application. */
#include "world.h"

#include <arpa/inet.h>
#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "client.h"

struct flight {
    flight *next;
    uint64_t arrival;
    uint32_t length;
    int to_server;
    uint8_t ecn;
    uint16_t number, port;
    uint8_t bytes[];
};

uint32_t random_below(world *w, uint32_t limit)
{
    return limit == 0 ? 0 : harness_random(&w->random) % limit;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Certificates */

static void make_key(gnutls_x509_privkey_t *key)
{
    CHECK_EQ(gnutls_x509_privkey_init(key), 0);
    CHECK_EQ(gnutls_x509_privkey_generate(*key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
             0);
}

static void add_certificate(http3_credentials *credentials, const char *name)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t chain, key_text;
    make_key(&key);
    CHECK_EQ(gnutls_x509_crt_init(&certificate), 0);
    CHECK_EQ(gnutls_x509_crt_set_version(certificate, 3), 0);
    CHECK_EQ(gnutls_x509_crt_set_serial(certificate, "\1", 1), 0);
    CHECK_EQ(gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 3600), 0);
    CHECK_EQ(gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 86400), 0);
    CHECK_EQ(gnutls_x509_crt_set_key(certificate, key), 0);
    CHECK_EQ(gnutls_x509_crt_set_dn(certificate, name, NULL), 0);
    CHECK_EQ(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, name + 3, (unsigned)strlen(name + 3),
                                                  GNUTLS_FSAN_SET),
             0);
    CHECK_EQ(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    CHECK_EQ(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &chain), 0);
    CHECK_EQ(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &key_text), 0);
    CHECK_EQ(http3_credentials_add(credentials, chain.data, chain.size, key_text.data, key_text.size, NULL, 0), 0);
    gnutls_free(chain.data);
    gnutls_free(key_text.data);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

http3_credentials *make_credentials(const char *const *names, size_t count)
{
    http3_credentials *credentials = http3_credentials_new();
    CHECK(credentials != NULL);
    for (size_t i = 0; i < count; i++)
        add_certificate(credentials, names[i]);
    return credentials;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The link */

static struct sockaddr_in address_of(uint16_t number, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x0a000000u + number)};
}

static const struct sockaddr_in *server_address(void)
{
    static struct sockaddr_in address;
    address = address_of(0xfffe, 443);
    return &address;
}

/* The mark with which a datagram arrives. */
static uint8_t marked(world *w, uint8_t ecn)
{
    if (w->link.clears_marks)
        return NGTCP2_ECN_NOT_ECT;
    return ecn != NGTCP2_ECN_NOT_ECT && w->link.congestion > 0 && random_below(w, 1000) < w->link.congestion
               ? NGTCP2_ECN_CE
               : ecn;
}

static void launch(world *w, int to_server, uint16_t number, uint16_t port, uint8_t ecn, const uint8_t *bytes,
                   size_t length)
{
    const link_settings *link = &w->link;
    uint64_t start = w->now;
    if (to_server)
        w->bytes_to_server += length;
    w->sent_with[to_server][ecn & 3]++;
    if ((link->largest > 0 && length > link->largest) || random_below(w, 1000) < link->loss)
        return;
    if (link->rate > 0) {
        uint64_t *busy = &w->busy_until[to_server];
        if (*busy < start)
            *busy = start;
        if ((*busy - start) * link->rate / SECOND > link->queue)
            return;
        *busy += length * SECOND / link->rate;
        start = *busy;
    }
    unsigned copies = random_below(w, 1000) < link->duplication ? 2 : 1;
    for (unsigned i = 0; i < copies; i++) {
        flight *f = malloc(sizeof *f + length);
        CHECK(f != NULL);
        *f = (flight){.arrival =
                          start + link->delay + (link->jitter > 0 ? random_below(w, 1000) * link->jitter / 1000 : 0),
                      .length = (uint32_t)length,
                      .to_server = to_server,
                      .ecn = marked(w, ecn),
                      .number = number,
                      .port = port};
        memcpy(f->bytes, bytes, length);
        flight **at = &w->flights;
        while (*at != NULL && (*at)->arrival <= f->arrival)
            at = &(*at)->next;
        f->next = *at;
        *at = f;
    }
}

void send_to_server(client *c, uint8_t ecn, const uint8_t *bytes, size_t length)
{
    c->bytes_sent += length;
    if (c->world->on_datagram_to_server != NULL)
        c->world->on_datagram_to_server(c->world, bytes, length);
    launch(c->world, 1, c->number, c->port, ecn, bytes, length);
}

static client *client_at(world *w, const struct sockaddr_in *address)
{
    uint16_t number = (uint16_t)(ntohl(address->sin_addr.s_addr) & 0xffff);
    for (uint32_t i = 0; i < w->client_count; i++)
        if (w->clients[i]->number == number)
            return w->clients[i];
    return NULL;
}

/* Datagrams for a port that the client has left get lost. */
static void send_to_client(world *w, const http3_gso_batch *batch, const uint8_t *bytes, size_t length)
{
    struct sockaddr_in address;
    CHECK_EQ(batch->remote_length, sizeof address);
    memcpy(&address, batch->remote, sizeof address);
    w->datagrams_to_clients++;
    w->bytes_to_clients += length;
    if (length > w->largest_datagram)
        w->largest_datagram = length;
    if (w->on_datagram != NULL)
        w->on_datagram(w, batch, bytes, length);
    const client *c = client_at(w, &address);
    if (c != NULL && ntohs(address.sin_port) == c->port)
        launch(w, 0, c->number, c->port, (uint8_t)batch->ecn, bytes, length);
}

/* ------------------------------------------------------------------------------------------------------------------
 * The application: GET /N gets N bytes, a POST gets its body back. */

uint8_t pattern(uint64_t at)
{
    return (uint8_t)(at * 131 + (at >> 8) * 7 + (at >> 16));
}

static void fill_pattern(uint8_t *bytes, size_t length, uint64_t at)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = pattern(at + i);
}

static int has_field(const http_stream *stream, const uint8_t *head, const char *name)
{
    const http_field *fields = (const http_field *)head; /* NOLINT: malloc aligns */
    const char *text = (const char *)head + stream->head.field_count * sizeof *fields;
    for (uint32_t i = 0; i < stream->head.field_count; i++)
        if (fields[i].name == HTTP_NAME_OTHER && fields[i].name_length == strlen(name) &&
            memcmp(text + fields[i].name_offset, name, fields[i].name_length) == 0)
            return 1;
    return 0;
}

static void begin_request(world *w, http_stream *stream)
{
    size_t table = stream->head.field_count * sizeof(http_field);
    uint8_t *head = malloc(table + stream->head.text_length + 1);
    CHECK(head != NULL);
    http_stream_copy_head(stream, head);
    head[table + stream->head.text_length] = 0;
    const char *text = (const char *)head + table;
    http_rows none = {(const uint8_t *)"", 0, 0};
    int64_t given;
    w->handlers_seen++;
    CHECK_EQ(((const http3_stream *)stream)->is_early, has_field(stream, head, "early-data"));
    w->handlers_early += ((const http3_stream *)stream)->is_early;
    if (stream->head.error != 0) {
        w->refused++;
        http_stream_answer(stream, http_error_status(stream->head.error), &none, 0, NULL, 0, 1, &given);
        http3_release(stream, w->now);
        free(head);
        return;
    }
    CHECK(w->handler_count < HANDLERS_MAX);
    handler *h = &w->handlers[w->handler_count++];
    if (w->handler_count > w->handlers_most)
        w->handlers_most = w->handler_count;
    *h = (handler){.stream = stream, .key = stream->key, .is_stuck = w->is_stuck, .until = w->now + w->works_for};
    h->is_echo = stream->head.method == HTTP_METHOD_POST;
    if (!h->is_stuck) {
        if (random_below(w, 8) == 0) {
            static const uint8_t row[] = {4, 0, 0, 0, 1, 0, 0, 0, 'L', 'i', 'n', 'k', '<'};
            http_rows early = {row, sizeof row, 1};
            CHECK_EQ(http_stream_inform(stream, 103, &early), HTTP_OK);
        }
        h->left = h->is_echo ? UINT64_MAX : strtoull(text + stream->head.path_offset + 1, NULL, 10);
        http_stream_answer(stream, 200, &none,
                           h->is_echo || random_below(w, 2) == 0 ? HTTP_LENGTH_UNKNOWN : (int64_t)h->left, NULL, 0,
                           h->left == 0, &given);
    }
    free(head);
}

static int finish(world *w, const handler *h)
{
    static const uint8_t row[] = {1, 0, 0, 0, 2, 0, 0, 0, 't', 'v', '1'};
    http_rows trailers = {row, sizeof row, (uint32_t)h->is_echo};
    (void)w;
    http_stream_finish(h->stream, &trailers);
    return 1;
}

/* Returns whether the handler has ended. */
static int step_handler(world *w, handler *h)
{
    static uint8_t bytes[65536];
    if (h->stream->unread > w->unread_most)
        w->unread_most = h->stream->unread;
    if (h->is_stuck)
        return w->works_for > 0 ? w->now >= h->until : http_stream_await_close(h->stream) == HTTP_GONE;
    for (;;) {
        if (h->left == 0)
            return h->at == 0 ? 1 : finish(w, h);
        int state = http_stream_await_output(h->stream, HTTP_OUTPUT_LOW);
        if (state != HTTP_OK)
            return state == HTTP_GONE;
        size_t length = 1 + random_below(w, random_below(w, 4) == 0 ? 65535 : 3000);
        if (h->is_echo) {
            int64_t count = w->is_lazy ? -HTTP_WAIT : http_stream_read(h->stream, bytes, length, 1);
            if (count == 0)
                return finish(w, h);
            if (count < 0)
                return count == -HTTP_GONE;
            length = (size_t)count;
        } else {
            length = length < h->left ? length : (size_t)h->left;
            fill_pattern(bytes, length, h->at);
            h->left -= length;
        }
        h->at += length;
        int result;
        if (random_below(w, 3) == 0) {
            http_piece *piece = http_new_piece(length + random_below(w, 100));
            CHECK(piece != NULL);
            memcpy(http_piece_bytes(piece), bytes, length);
            result = http_stream_write_piece(h->stream, piece, length);
        } else {
            result = http_stream_write(h->stream, bytes, length);
        }
        if (result == HTTP_GONE)
            return 1;
        if (random_below(w, 16) == 0)
            http_stream_flush(h->stream);
        if (!h->is_echo && h->left == 0)
            return finish(w, h);
    }
}

static void run_application(world *w)
{
    http_stream *stream;
    if (w->is_served_elsewhere)
        return;
    while ((stream = http3_next_request(w->endpoint)) != NULL)
        begin_request(w, stream);
    while (http3_next_notice(w->endpoint) >= 0)
        continue;
    for (uint32_t i = 0; i < w->handler_count;) {
        if (step_handler(w, &w->handlers[i])) {
            http3_release(w->handlers[i].stream, w->now);
            w->handlers[i] = w->handlers[--w->handler_count];
        } else {
            i++;
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Time */

void flush_endpoint(world *w)
{
    static uint8_t bytes[HTTP3_COLLECT_MIN];
    http3_gso_batch batches[16];
    uint64_t flags;
    http_sender sender = HTTP_SENDER_DRIVER;
    do {
        flags = http3_collect(w->endpoint, batches, 16, bytes, sizeof bytes, w->now, sender);
        uint32_t count = (uint32_t)flags;
        for (uint32_t i = 0; i < count; i++) {
            const http3_gso_batch *t = &batches[i];
            CHECK(t->length > 0 && t->offset + t->length <= sizeof bytes && t->segment <= t->length);
            for (uint32_t at = 0; at < t->length; at += t->segment)
                send_to_client(w, t, bytes + t->offset + at, t->length - at < t->segment ? t->length - at : t->segment);
        }
        sender = HTTP_SENDER_AGAIN;
    } while (!(flags & HTTP_HAS_ENDED));
    CHECK(w->is_served_elsewhere || !http3_needs_sender(w->endpoint));
}

/* Datagrams of `segment` bytes each, but the last one; 0: one. */
static void inject_batch(world *w, uint16_t number, uint16_t port, uint8_t ecn, const uint8_t *bytes, size_t length,
                         size_t segment)
{
    struct sockaddr_in remote = address_of(number, port);
    uint8_t *copy = malloc(length + 1); /* its bounds are checked */
    CHECK(copy != NULL);
    memcpy(copy, bytes, length);
    const http3_datagrams datagrams = {.local = server_address(),
                                       .local_length = sizeof remote,
                                       .remote = &remote,
                                       .remote_length = sizeof remote,
                                       .ecn = ecn,
                                       .bytes = copy,
                                       .length = length,
                                       .segment = segment};
    if (http3_receive(w->endpoint, &datagrams, w->now) & HTTP3_IS_FOREIGN) {
        CHECK_EQ(memcmp(copy, bytes, length), 0);
        w->foreign++;
    }
    free(copy);
}

void inject(world *w, uint16_t number, uint16_t port, const uint8_t *bytes, size_t length)
{
    inject_batch(w, number, port, 0, bytes, length, 0);
}

/* Whether the kernel would join it to datagrams of the size of the first one. */
static int joins(const world *w, const flight *first, const flight *next)
{
    return w->link.joins && next != NULL && next->arrival <= w->now && next->to_server &&
           next->number == first->number && next->port == first->port && next->ecn == first->ecn &&
           next->length <= first->length;
}

static void land_at_server(world *w, const flight *first)
{
    static uint8_t bytes[DATAGRAM_ROOM];
    size_t length = first->length;
    memcpy(bytes, first->bytes, length);
    for (flight *next = w->flights;
         joins(w, first, next) && length % first->length == 0 && length + next->length <= sizeof bytes;
         next = w->flights) {
        memcpy(bytes + length, next->bytes, next->length);
        length += next->length;
        w->flights = next->next;
        free(next);
    }
    inject_batch(w, first->number, first->port, first->ecn, bytes, length, w->link.joins ? first->length : 0);
}

static void land(world *w, const flight *f)
{
    if (f->to_server) {
        land_at_server(w, f);
        return;
    }
    for (uint32_t i = 0; i < w->client_count; i++)
        if (w->clients[i]->number == f->number && w->clients[i]->port == f->port)
            client_receive(w->clients[i], f->ecn, f->bytes, f->length);
}

static uint64_t next_event(world *w)
{
    uint64_t at = http3_expiry(w->endpoint);
    if (w->flights != NULL && w->flights->arrival < at)
        at = w->flights->arrival;
    for (uint32_t i = 0; i < w->client_count; i++) {
        uint64_t expiry = client_expiry(w->clients[i]);
        at = expiry < at ? expiry : at;
    }
    for (uint32_t i = 0; i < w->handler_count; i++)
        if (w->handlers[i].is_stuck && w->works_for > 0 && w->handlers[i].until < at)
            at = w->handlers[i].until;
    return at;
}

static void step(world *w)
{
    while (w->flights != NULL && w->flights->arrival <= w->now) {
        flight *f = w->flights;
        w->flights = f->next;
        land(w, f);
        free(f);
    }
    if (http3_expiry(w->endpoint) <= w->now)
        http3_handle_expiry(w->endpoint, w->now);
    run_application(w);
    flush_endpoint(w);
    run_application(w); /* some output may have been sent */
    if (http3_needs_sender(w->endpoint))
        flush_endpoint(w);
    for (uint32_t i = 0; i < w->client_count; i++)
        client_work(w->clients[i]);
    if (w->rests)
        w->rested += http3_rest_quiet(w->endpoint, w->now, 0, UINT32_MAX);
}

int run_until(world *w, int (*holds)(world *w), uint64_t limit)
{
    uint64_t end = w->now + limit;
    step(w);
    while (holds == NULL || !holds(w)) {
        uint64_t at = next_event(w);
        if (at > end) {
            w->now = end;
            return holds != NULL && holds(w);
        }
        if (at > w->now)
            w->now = at;
        step(w);
    }
    return 1;
}

void run_for(world *w, uint64_t time)
{
    (void)run_until(w, NULL, time);
}

int all_complete(world *w)
{
    for (uint32_t i = 0; i < w->client_count; i++)
        for (uint32_t k = 0; k < w->clients[i]->exchange_count; k++)
            if (!w->clients[i]->exchanges[k]->is_closed)
                return 0;
    return 1;
}

int all_over(world *w)
{
    for (uint32_t i = 0; i < w->client_count; i++)
        if (!w->clients[i]->is_over)
            return 0;
    return 1;
}

int all_established(world *w)
{
    for (uint32_t i = 0; i < w->client_count; i++)
        if (!w->clients[i]->is_established)
            return 0;
    return 1;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The beginning and the end */

world *new_world(uint64_t seed)
{
    world *w = calloc(1, sizeof *w);
    CHECK(w != NULL);
    w->random = seed == 0 ? 1 : seed * 0x9e3779b97f4a7c15u;
    w->now = SECOND;
    w->link.delay = 10 * MILLISECOND;
    CHECK_EQ(http3_settings_default(&w->settings), 0);
    w->settings.endpoint_id = 0x0102;
    return w;
}

void start_endpoint(world *w)
{
    static const char *const names[] = {"CN=localhost", "CN=second.example"};
    static http3_credentials *credentials;
    if (credentials == NULL)
        credentials = make_credentials(names, 2);
    w->endpoint = http3_open(&w->settings, credentials);
    CHECK(w->endpoint != NULL);
}

void end_world(world *w)
{
    http3_close(w->endpoint, HTTP3_NO_ERROR, w->now);
    for (uint32_t i = 0; i < w->handler_count; i++)
        http3_release(w->handlers[i].stream, w->now);
    http_stream *stream;
    while ((stream = http3_next_request(w->endpoint)) != NULL)
        http3_release(stream, w->now);
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    CHECK_EQ(http3_connection_count(w->endpoint), 0);
    http3_free(w->endpoint);
    for (uint32_t i = 0; i < w->client_count; i++)
        free_client(w->clients[i]);
    while (w->flights != NULL) {
        flight *f = w->flights;
        w->flights = f->next;
        free(f);
    }
    free(w);
}
