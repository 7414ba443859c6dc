/* library_faults.c - functions of GnuTLS, ngtcp2 and nghttp3 as the engine calls them where calls fail (fault.h): as
 * if there were no memory. */
#include "fault/fault.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <nghttp3/nghttp3.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

/* FAILING(type, name, (parameters), (arguments), result when it fails) */
#define FAILING(type, name, parameters, arguments, result)                       \
    type fault_##name parameters;                                                \
    type fault_##name parameters                                                 \
    {                                                                            \
        return fault_is_due(#name, #result) ? (type)(result) : (name arguments); \
    }

FAILING(int, gnutls_priority_init, (gnutls_priority_t * priority, const char *text, const char **at),
        (priority, text, at), GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_certificate_allocate_credentials, (gnutls_certificate_credentials_t * credentials), (credentials),
        GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_certificate_set_key,
        (gnutls_certificate_credentials_t credentials, const char **names, int name_count, gnutls_pcert_st *list,
         int count, gnutls_privkey_t key),
        (credentials, names, name_count, list, count, key), GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_privkey_init, (gnutls_privkey_t * key), (key), GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_rnd, (gnutls_rnd_level_t level, void *bytes, size_t count), (level, bytes, count),
        GNUTLS_E_RANDOM_FAILED)
FAILING(int, gnutls_hmac_fast,
        (gnutls_mac_algorithm_t algorithm, const void *key, size_t key_length, const void *text, size_t length,
         void *digest),
        (algorithm, key, key_length, text, length, digest), GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_anti_replay_init, (gnutls_anti_replay_t * record), (record), GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_init, (gnutls_session_t * session, unsigned flags), (session, flags), GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_priority_set, (gnutls_session_t session, gnutls_priority_t priority), (session, priority),
        GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_session_ticket_enable_server, (gnutls_session_t session, const gnutls_datum_t *key), (session, key),
        GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_credentials_set, (gnutls_session_t session, gnutls_credentials_type_t type, void *credentials),
        (session, type, credentials), GNUTLS_E_MEMORY_ERROR)
FAILING(int, gnutls_alpn_set_protocols,
        (gnutls_session_t session, const gnutls_datum_t *protocols, unsigned count, unsigned flags),
        (session, protocols, count, flags), GNUTLS_E_MEMORY_ERROR)
FAILING(int, ngtcp2_crypto_gnutls_configure_server_session, (gnutls_session_t session), (session), -1)

FAILING(int, ngtcp2_conn_open_uni_stream, (ngtcp2_conn * connection, int64_t *id, void *data), (connection, id, data),
        NGTCP2_ERR_NOMEM)
FAILING(int, ngtcp2_conn_shutdown_stream_read, (ngtcp2_conn * connection, uint32_t flags, int64_t id, uint64_t code),
        (connection, flags, id, code), NGTCP2_ERR_NOMEM)
FAILING(int, ngtcp2_conn_shutdown_stream_write, (ngtcp2_conn * connection, uint32_t flags, int64_t id, uint64_t code),
        (connection, flags, id, code), NGTCP2_ERR_NOMEM)
FAILING(int, ngtcp2_conn_handle_expiry, (ngtcp2_conn * connection, ngtcp2_tstamp now), (connection, now),
        NGTCP2_ERR_NOMEM)
FAILING(int, ngtcp2_crypto_generate_stateless_reset_token,
        (uint8_t * token, const uint8_t *secret, size_t length, const ngtcp2_cid *id), (token, secret, length, id), -1)
FAILING(ngtcp2_ssize, ngtcp2_crypto_write_retry,
        (uint8_t * to, size_t capacity, uint32_t version, const ngtcp2_cid *to_id, const ngtcp2_cid *from_id,
         const ngtcp2_cid *original, const uint8_t *token, size_t length),
        (to, capacity, version, to_id, from_id, original, token, length), -1)
FAILING(ngtcp2_ssize, ngtcp2_pkt_write_stateless_reset,
        (uint8_t * to, size_t capacity, const uint8_t *token, const uint8_t *random, size_t length),
        (to, capacity, token, random, length), NGTCP2_ERR_NOBUF)
FAILING(ngtcp2_ssize, ngtcp2_pkt_write_version_negotiation,
        (uint8_t * to, size_t capacity, uint8_t random, const uint8_t *to_id, size_t to_length, const uint8_t *from_id,
         size_t from_length, const uint32_t *versions, size_t count),
        (to, capacity, random, to_id, to_length, from_id, from_length, versions, count), NGTCP2_ERR_NOBUF)

FAILING(int, nghttp3_conn_server_new_versioned,
        (nghttp3_conn * *connection, int callbacks_version, const nghttp3_callbacks *callbacks, int settings_version,
         const nghttp3_settings *settings, const nghttp3_mem *memory, void *data),
        (connection, callbacks_version, callbacks, settings_version, settings, memory, data), NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_bind_control_stream, (nghttp3_conn * connection, int64_t id), (connection, id),
        NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_bind_qpack_streams, (nghttp3_conn * connection, int64_t encoder, int64_t decoder),
        (connection, encoder, decoder), NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_submit_response,
        (nghttp3_conn * connection, int64_t id, const nghttp3_nv *fields, size_t count,
         const nghttp3_data_reader *reader),
        (connection, id, fields, count, reader), NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_submit_trailers,
        (nghttp3_conn * connection, int64_t id, const nghttp3_nv *fields, size_t count),
        (connection, id, fields, count), NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_submit_info, (nghttp3_conn * connection, int64_t id, const nghttp3_nv *fields, size_t count),
        (connection, id, fields, count), NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_add_write_offset, (nghttp3_conn * connection, int64_t id, size_t count),
        (connection, id, count), NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_add_ack_offset, (nghttp3_conn * connection, int64_t id, uint64_t count),
        (connection, id, count), NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_close_stream, (nghttp3_conn * connection, int64_t id, uint64_t code), (connection, id, code),
        NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_shutdown_stream_read, (nghttp3_conn * connection, int64_t id), (connection, id),
        NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_unblock_stream, (nghttp3_conn * connection, int64_t id), (connection, id), NGHTTP3_ERR_NOMEM)
FAILING(int, nghttp3_conn_resume_stream, (nghttp3_conn * connection, int64_t id), (connection, id), NGHTTP3_ERR_NOMEM)
