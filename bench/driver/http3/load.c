// Generates HTTP/3 load: every connection has this many requests in flight, and begins another one when one was
// answered.
//
// Usage: http3 [ADDRESS:]PORT PATH CONNECTIONS STREAMS SECONDS COUNTER. It ends after that time, or at SIGINT, and
// prints its figures like wrk.lua. COUNTER is a file of 16 bytes: the bytes of bodies that were received so far, and
// the connections whose first request was answered.
//
// SIGUSR1 pauses it, and SIGUSR2 lets it go on. A paused generator begins no requests, but takes the answers that are
// on their way and acknowledges them: a server repeats what nobody acknowledges, and that would be counted.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <nghttp3/nghttp3.h>
#include <netinet/udp.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Windows like those of browsers, as h2load has them.
enum { STREAM_WINDOW = 1 << 20, CONNECTION_WINDOW = 1 << 22, PACKET = 1452, BATCH = 65536 };

struct connection;

// A slot for a request.
struct request {
    struct connection *connection;
    uint64_t sent_ns;
    struct request *next_free;
    bool is_answered;
};

struct connection {
    ngtcp2_conn *quic;
    nghttp3_conn *http;
    gnutls_session_t tls;
    ngtcp2_crypto_conn_ref reference;
    int descriptor;
    struct sockaddr_in local;
    bool is_established, is_over, was_served;
    struct request *requests, *free;
    uint64_t expiry_ns;
};

static struct sockaddr_in server;
static const char *path;
static size_t connection_count, stream_count;
static struct connection *all;
static gnutls_certificate_credentials_t credentials;
static int poller;

// Latencies are counted in steps of 10 us up to a second; the last step has all longer ones.
enum { STEP_NS = 10000, STEPS = 100000 };
static uint64_t latencies[STEPS + 1];
static uint64_t answers, errors, longest_ns;
static volatile uint64_t *shared; // the bytes of bodies, and the connections that were served
static volatile sig_atomic_t is_over, is_paused, was_resumed;

static void end(int number)
{
    (void)number;
    is_over = 1;
}

static void pause_or_resume(int number)
{
    is_paused = number == SIGUSR1;
    was_resumed = number == SIGUSR2;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "http3: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "http3: %s\n", what);
        exit(1);
    }
}

static void fail(struct connection *one)
{
    if (!one->is_over) {
        one->is_over = true;
        one->expiry_ns = UINT64_MAX;
        errors++;
        epoll_ctl(poller, EPOLL_CTL_DEL, one->descriptor, NULL);
        close(one->descriptor);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers

static void open_windows(struct connection *one, int64_t id, uint64_t length)
{
    ngtcp2_conn_extend_max_stream_offset(one->quic, id, length);
    ngtcp2_conn_extend_max_offset(one->quic, length);
}

static int on_body(nghttp3_conn *http, int64_t id, const uint8_t *bytes, size_t length, void *data, void *stream_data)
{
    (void)http, (void)bytes, (void)stream_data;
    shared[0] += length;
    open_windows(data, id, length);
    return 0;
}

static int on_deferred(nghttp3_conn *http, int64_t id, size_t length, void *data, void *stream_data)
{
    (void)http, (void)stream_data;
    open_windows(data, id, length);
    return 0;
}

static int on_field(nghttp3_conn *http, int64_t id, int32_t token, nghttp3_rcbuf *name, nghttp3_rcbuf *value,
                    uint8_t flags, void *data, void *stream_data)
{
    nghttp3_vec text = nghttp3_rcbuf_get_buf(value);
    (void)http, (void)id, (void)name, (void)flags, (void)data, (void)stream_data;
    if (token == NGHTTP3_QPACK_TOKEN__STATUS && (text.len != 3 || memcmp(text.base, "200", 3) != 0)) {
        errors++;
    }
    return 0;
}

static int on_end(nghttp3_conn *http, int64_t id, void *data, void *stream_data)
{
    struct request *request = stream_data;
    struct connection *one = data;
    (void)http, (void)id;
    uint64_t took = now_ns() - request->sent_ns;
    uint64_t step = took / STEP_NS;
    latencies[step < STEPS ? step : STEPS]++;
    longest_ns = took > longest_ns ? took : longest_ns;
    answers++;
    request->is_answered = true;
    if (!one->was_served) {
        one->was_served = true;
        shared[1]++;
    }
    return 0;
}

static int on_close(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    struct request *request = stream_data;
    (void)http, (void)id, (void)code, (void)data;
    if (request != NULL) {
        errors += !request->is_answered;
        request->next_free = request->connection->free;
        request->connection->free = request;
    }
    return 0;
}

static const nghttp3_callbacks http_callbacks = {
    .recv_data = on_body,
    .deferred_consume = on_deferred,
    .recv_header = on_field,
    .end_stream = on_end,
    .stream_close = on_close,
};

static int begin_http(struct connection *one)
{
    int64_t control, encoder, decoder;
    nghttp3_settings settings;
    nghttp3_settings_default(&settings);
    settings.qpack_max_dtable_capacity = 4096;
    settings.qpack_encoder_max_dtable_capacity = 4096;
    settings.qpack_blocked_streams = 100;
    return one->http == NULL && nghttp3_conn_client_new(&one->http, &http_callbacks, &settings, NULL, one) == 0 &&
                   ngtcp2_conn_open_uni_stream(one->quic, &control, NULL) == 0 &&
                   ngtcp2_conn_open_uni_stream(one->quic, &encoder, NULL) == 0 &&
                   ngtcp2_conn_open_uni_stream(one->quic, &decoder, NULL) == 0 &&
                   nghttp3_conn_bind_control_stream(one->http, control) == 0 &&
                   nghttp3_conn_bind_qpack_streams(one->http, encoder, decoder) == 0
               ? 0
               : NGTCP2_ERR_CALLBACK_FAILURE;
}

// ---------------------------------------------------------------------------------------------------------------------
// QUIC

static int on_key(ngtcp2_conn *quic, ngtcp2_encryption_level level, void *data)
{
    (void)quic;
    return level == NGTCP2_ENCRYPTION_LEVEL_1RTT ? begin_http(data) : 0;
}

static int on_handshake(ngtcp2_conn *quic, void *data)
{
    (void)quic;
    ((struct connection *)data)->is_established = true;
    return 0;
}

static int on_stream_data(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t offset, const uint8_t *bytes,
                          size_t length, void *data, void *stream_data)
{
    struct connection *one = data;
    (void)quic, (void)offset, (void)stream_data;
    nghttp3_ssize used =
        nghttp3_conn_read_stream(one->http, id, bytes, length, (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0);
    if (used < 0) {
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    open_windows(one, id, (uint64_t)used);
    return 0;
}

static int on_acknowledged(ngtcp2_conn *quic, int64_t id, uint64_t offset, uint64_t length, void *data,
                           void *stream_data)
{
    (void)quic, (void)offset, (void)stream_data;
    return nghttp3_conn_add_ack_offset(((struct connection *)data)->http, id, length) == 0
               ? 0
               : NGTCP2_ERR_CALLBACK_FAILURE;
}

static int on_stream_close(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t code, void *data, void *stream_data)
{
    (void)quic, (void)stream_data;
    (void)nghttp3_conn_close_stream(((struct connection *)data)->http, id,
                                    flags & NGTCP2_STREAM_CLOSE_FLAG_APP_ERROR_CODE_SET ? code : NGHTTP3_H3_NO_ERROR);
    return 0;
}

static int on_window(ngtcp2_conn *quic, int64_t id, uint64_t most, void *data, void *stream_data)
{
    (void)quic, (void)most, (void)stream_data;
    (void)nghttp3_conn_unblock_stream(((struct connection *)data)->http, id);
    return 0;
}

static void fill_random(uint8_t *bytes, size_t length, const ngtcp2_rand_ctx *context)
{
    (void)context;
    (void)gnutls_rnd(GNUTLS_RND_NONCE, bytes, length);
}

static int on_new_id(ngtcp2_conn *quic, ngtcp2_cid *id, uint8_t *token, size_t length, void *data)
{
    (void)quic, (void)data;
    fill_random(id->data, length, NULL);
    id->datalen = length;
    fill_random(token, NGTCP2_STATELESS_RESET_TOKENLEN, NULL);
    return 0;
}

static const ngtcp2_callbacks quic_callbacks = {
    .client_initial = ngtcp2_crypto_client_initial_cb,
    .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
    .handshake_completed = on_handshake,
    .encrypt = ngtcp2_crypto_encrypt_cb,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .recv_stream_data = on_stream_data,
    .acked_stream_data_offset = on_acknowledged,
    .stream_close = on_stream_close,
    .recv_retry = ngtcp2_crypto_recv_retry_cb,
    .rand = fill_random,
    .get_new_connection_id = on_new_id,
    .update_key = ngtcp2_crypto_update_key_cb,
    .extend_max_stream_data = on_window,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
    .recv_tx_key = on_key,
};

static ngtcp2_conn *connection_of(ngtcp2_crypto_conn_ref *reference)
{
    return ((struct connection *)reference->user_data)->quic;
}

static ngtcp2_path path_of(struct connection *one)
{
    return (ngtcp2_path){.local = {(ngtcp2_sockaddr *)&one->local, sizeof one->local},
                         .remote = {(ngtcp2_sockaddr *)&server, sizeof server}};
}

static void open_socket(struct connection *one)
{
    one->descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (one->descriptor < 0 || connect(one->descriptor, (struct sockaddr *)&server, sizeof server) != 0) {
        die("cannot make a socket");
    }
    int buffer_bytes = 1 << 22, yes = 1;
    socklen_t length = sizeof one->local;
    setsockopt(one->descriptor, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    setsockopt(one->descriptor, IPPROTO_UDP, UDP_GRO, &yes, sizeof yes);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    if (getsockname(one->descriptor, (struct sockaddr *)&one->local, &length) != 0 ||
        epoll_ctl(poller, EPOLL_CTL_ADD, one->descriptor, &event) != 0) {
        die("cannot watch a socket");
    }
}

static void open_tls(struct connection *one)
{
    static uint8_t h3[] = {'h', '3'};
    gnutls_datum_t protocol = {h3, sizeof h3};
    require(gnutls_init(&one->tls, GNUTLS_CLIENT) == 0 &&
                ngtcp2_crypto_gnutls_configure_client_session(one->tls) == 0 &&
                gnutls_priority_set_direct(one->tls,
                                           "%DISABLE_TLS13_COMPAT_MODE:NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:"
                                           "+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305",
                                           NULL) == 0 &&
                gnutls_credentials_set(one->tls, GNUTLS_CRD_CERTIFICATE, credentials) == 0 &&
                gnutls_alpn_set_protocols(one->tls, &protocol, 1, 0) == 0 &&
                gnutls_server_name_set(one->tls, GNUTLS_NAME_DNS, "localhost", 9) == 0,
            "cannot set up TLS");
    gnutls_session_set_ptr(one->tls, &one->reference);
}

static void start(struct connection *one)
{
    ngtcp2_settings settings;
    ngtcp2_transport_params parameters;
    ngtcp2_cid target = {.datalen = 18}, own = {.datalen = 8};
    open_socket(one);
    one->reference = (ngtcp2_crypto_conn_ref){.get_conn = connection_of, .user_data = one};
    ngtcp2_settings_default(&settings);
    settings.initial_ts = now_ns();
    settings.handshake_timeout = UINT64_MAX;
    settings.max_tx_udp_payload_size = PACKET;
    ngtcp2_transport_params_default(&parameters);
    parameters.initial_max_stream_data_bidi_local = STREAM_WINDOW;
    parameters.initial_max_stream_data_uni = 65536;
    parameters.initial_max_data = CONNECTION_WINDOW;
    parameters.initial_max_streams_uni = 8;
    parameters.max_idle_timeout = 300 * NGTCP2_SECONDS;
    fill_random(target.data, target.datalen, NULL);
    fill_random(own.data, own.datalen, NULL);
    ngtcp2_path way = path_of(one);
    require(ngtcp2_conn_client_new(&one->quic, &target, &own, &way, NGTCP2_PROTO_VER_V1, &quic_callbacks, &settings,
                                   &parameters, NULL, one) == 0,
            "cannot make a connection");
    open_tls(one);
    ngtcp2_conn_set_tls_native_handle(one->quic, one->tls);
    // While it is paused, servers must not think that it is gone.
    ngtcp2_conn_set_keep_alive_timeout(one->quic, 10 * NGTCP2_SECONDS);
    one->requests = calloc(stream_count, sizeof *one->requests);
    require(one->requests != NULL, "no memory");
    for (size_t index = 0; index < stream_count; index++) {
        one->requests[index] = (struct request){.connection = one, .next_free = one->free};
        one->free = &one->requests[index];
    }
}

static nghttp3_nv field(const char *name, const char *value)
{
    return (nghttp3_nv){(const uint8_t *)name, (const uint8_t *)value, strlen(name), strlen(value),
                        NGHTTP3_NV_FLAG_NONE};
}

static void begin_requests(struct connection *one)
{
    while (!is_paused && one->is_established && one->free != NULL && ngtcp2_conn_get_streams_bidi_left(one->quic) > 0) {
        struct request *request = one->free;
        nghttp3_nv fields[] = {field(":method", "GET"), field(":scheme", "https"), field(":authority", "localhost"),
                               field(":path", path), field("user-agent", "load")};
        int64_t id;
        one->free = request->next_free;
        request->sent_ns = now_ns();
        request->is_answered = false;
        if (ngtcp2_conn_open_bidi_stream(one->quic, &id, request) != 0 ||
            nghttp3_conn_submit_request(one->http, id, fields, sizeof fields / sizeof *fields, NULL, request) != 0) {
            fail(one);
            return;
        }
    }
}

// Writes a packet. Returns its length, 0 if there is none now, or a negative number after a failure.
static ngtcp2_ssize write_packet(struct connection *one, uint8_t *out)
{
    for (;;) {
        nghttp3_vec pieces[8];
        nghttp3_ssize count = 0;
        ngtcp2_ssize taken = -1;
        ngtcp2_path_storage way;
        ngtcp2_pkt_info info;
        int64_t id = -1;
        int is_end = 0;
        ngtcp2_path_storage_zero(&way);
        if (one->http != NULL && ngtcp2_conn_get_max_data_left(one->quic) > 0) {
            count = nghttp3_conn_writev_stream(one->http, &id, &is_end, pieces, 8);
            if (count < 0) {
                return -1;
            }
        }
        ngtcp2_ssize length =
            ngtcp2_conn_writev_stream(one->quic, &way.path, &info, out, PACKET, &taken,
                                      NGTCP2_WRITE_STREAM_FLAG_MORE | (is_end ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0), id,
                                      (const ngtcp2_vec *)pieces, (size_t)count, now_ns());
        if (length == NGTCP2_ERR_STREAM_DATA_BLOCKED) {
            nghttp3_conn_block_stream(one->http, id);
        } else if (length == NGTCP2_ERR_STREAM_SHUT_WR) {
            nghttp3_conn_shutdown_stream_write(one->http, id);
        } else if (length < 0 && length != NGTCP2_ERR_WRITE_MORE) {
            return length;
        }
        if (taken >= 0 && id >= 0 && nghttp3_conn_add_write_offset(one->http, id, (size_t)taken) != 0) {
            return -1;
        }
        if (length >= 0) {
            return length;
        }
    }
}

static void work(struct connection *one)
{
    uint8_t packet[PACKET];
    if (one->is_over) {
        return;
    }
    uint64_t now = now_ns();
    if (ngtcp2_conn_get_expiry(one->quic) <= now && ngtcp2_conn_handle_expiry(one->quic, now) != 0) {
        fail(one);
        return;
    }
    begin_requests(one);
    while (!one->is_over) {
        ngtcp2_ssize length = write_packet(one, packet);
        if (length < 0) {
            fail(one);
        }
        if (length <= 0) {
            break;
        }
        (void)!send(one->descriptor, packet, (size_t)length, 0); // what cannot be sent is lost, as in a network
    }
    if (!one->is_over) {
        ngtcp2_conn_update_pkt_tx_time(one->quic, now_ns());
        one->expiry_ns = ngtcp2_conn_get_expiry(one->quic);
    }
}

static void read_all(struct connection *one)
{
    static uint8_t batch[BATCH];
    union {
        struct cmsghdr head;
        char control[CMSG_SPACE(sizeof(int))];
    } control;
    while (!one->is_over) {
        struct iovec piece = {batch, sizeof batch};
        struct msghdr message = {
            .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        ssize_t size = recvmsg(one->descriptor, &message, 0);
        if (size <= 0) {
            return;
        }
        int segment = 0;
        for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at != NULL; at = CMSG_NXTHDR(&message, at)) {
            if (at->cmsg_level == IPPROTO_UDP && at->cmsg_type == UDP_GRO) {
                memcpy(&segment, CMSG_DATA(at), sizeof segment);
            }
        }
        size_t step = segment > 0 ? (size_t)segment : (size_t)size;
        for (size_t at = 0; at < (size_t)size && !one->is_over; at += step) {
            ngtcp2_path way = path_of(one);
            ngtcp2_pkt_info info = {0};
            size_t length = (size_t)size - at < step ? (size_t)size - at : step;
            if (ngtcp2_conn_read_pkt(one->quic, &way, &info, batch + at, length, now_ns()) != 0) {
                fail(one);
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------

static double percentile_us(double share)
{
    uint64_t wanted = (uint64_t)((double)answers * share);
    uint64_t seen = 0;
    for (size_t step = 0; step <= STEPS; step++) {
        seen += latencies[step];
        if (seen > wanted) {
            return (double)(step + 1) * STEP_NS / 1e3;
        }
    }
    return (double)longest_ns / 1e3;
}

static void print_figures(uint64_t duration_ns)
{
    printf("figures {\"requests\": %llu, \"duration_us\": %.0f, \"bytes\": %llu, \"errors_read\": %llu, "
           "\"latency_p50_us\": %.0f, \"latency_p90_us\": %.0f, \"latency_p99_us\": %.0f, "
           "\"latency_p99_9_us\": %.0f, \"latency_max_us\": %.0f}\n",
           (unsigned long long)answers, (double)duration_ns / 1e3, (unsigned long long)shared[0],
           (unsigned long long)errors, percentile_us(0.5), percentile_us(0.9), percentile_us(0.99),
           percentile_us(0.999), (double)longest_ns / 1e3);
}

static void share_counter(const char *name)
{
    int descriptor = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0 || ftruncate(descriptor, 2 * sizeof *shared) != 0) {
        die("cannot make the counter");
    }
    shared = mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (shared == MAP_FAILED) {
        die("cannot map the counter");
    }
}

// Waits for datagrams, for a signal, or until a connection has something to do.
static void wait_and_read(void)
{
    struct epoll_event events[256];
    uint64_t next = UINT64_MAX, now = now_ns();
    for (size_t index = 0; index < connection_count; index++) {
        next = all[index].expiry_ns < next ? all[index].expiry_ns : next;
    }
    uint64_t left = next <= now ? 0 : next - now;
    left = left < 100000000 ? left : 100000000;
    struct timespec limit = {.tv_sec = 0, .tv_nsec = (long)left};
    int ready = epoll_pwait2(poller, events, 256, &limit, NULL);
    for (int index = 0; index < ready; index++) {
        read_all(events[index].data.ptr);
        work(events[index].data.ptr);
    }
    now = now_ns();
    for (size_t index = 0; index < connection_count; index++) {
        if (all[index].expiry_ns <= now) {
            work(&all[index]);
        }
    }
}

int main(int count_of_words, char **words)
{
    if (count_of_words != 7) {
        fprintf(stderr, "usage: http3 [ADDRESS:]PORT PATH CONNECTIONS STREAMS SECONDS COUNTER\n");
        return 2;
    }
    char *colon = strchr(words[1], ':');
    if (colon != NULL) {
        *colon = 0;
    }
    server = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(colon == NULL ? words[1] : colon + 1))};
    require(inet_pton(AF_INET, colon == NULL ? "127.0.0.1" : words[1], &server.sin_addr) == 1, "not an address");
    path = words[2];
    connection_count = (size_t)atoi(words[3]);
    stream_count = (size_t)atoi(words[4]);
    uint64_t limit_ns = (uint64_t)(atof(words[5]) * 1e9);
    struct sigaction action = {.sa_handler = end}, pausing = {.sa_handler = pause_or_resume};
    // If both wait, the one that was sent first must have its turn first, and not be interrupted by the other one.
    sigaddset(&pausing.sa_mask, SIGUSR1);
    sigaddset(&pausing.sa_mask, SIGUSR2);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &pausing, NULL);
    sigaction(SIGUSR2, &pausing, NULL);
    share_counter(words[6]); // from here on others may send signals
    require(gnutls_certificate_allocate_credentials(&credentials) == 0, "no memory");
    all = calloc(connection_count, sizeof *all);
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (!all || poller < 0) {
        die("cannot begin");
    }
    for (size_t index = 0; index < connection_count; index++) {
        all[index].expiry_ns = UINT64_MAX; // not started
    }
    uint64_t begin = now_ns();
    for (size_t index = 0; index < connection_count; index++) {
        start(&all[index]);
        work(&all[index]);
        if (index % 8 == 7) { // so that the handshakes do not drown the server
            wait_and_read();
        }
    }
    while (!is_over && now_ns() - begin < limit_ns) {
        wait_and_read();
        if (was_resumed) {
            was_resumed = 0;
            for (size_t index = 0; index < connection_count; index++) {
                work(&all[index]);
            }
        }
    }
    print_figures(now_ns() - begin);
    return 0;
}
