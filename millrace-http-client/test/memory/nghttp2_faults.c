/* nghttp2_faults.c - libnghttp2's functions as http2_client.c calls them where calls fail (fault.h): each one may find
   no memory. */
#include "fault/fault.h"

#include <nghttp2/nghttp2.h>

/* WITHOUT_MEMORY(type, name, (parameters), (arguments)) */
#define WITHOUT_MEMORY(type, name, parameters, arguments)                                                   \
    type fault_##name parameters;                                                                           \
    type fault_##name parameters                                                                            \
    {                                                                                                       \
        return fault_is_due(#name, "NGHTTP2_ERR_NOMEM") ? (type)NGHTTP2_ERR_NOMEM : (type)(name arguments); \
    }

WITHOUT_MEMORY(int, nghttp2_session_callbacks_new, (nghttp2_session_callbacks * *callbacks), (callbacks))
WITHOUT_MEMORY(int, nghttp2_option_new, (nghttp2_option * *option), (option))
WITHOUT_MEMORY(int, nghttp2_session_client_new2,
               (nghttp2_session * *session, const nghttp2_session_callbacks *callbacks, void *data,
                const nghttp2_option *option),
               (session, callbacks, data, option))
WITHOUT_MEMORY(int, nghttp2_session_set_local_window_size,
               (nghttp2_session * session, uint8_t flags, int32_t stream, int32_t size), (session, flags, stream, size))
WITHOUT_MEMORY(int, nghttp2_submit_settings,
               (nghttp2_session * session, uint8_t flags, const nghttp2_settings_entry *entries, size_t count),
               (session, flags, entries, count))
WITHOUT_MEMORY(int32_t, nghttp2_submit_request,
               (nghttp2_session * session, const nghttp2_priority_spec *priority, const nghttp2_nv *fields,
                size_t count, const nghttp2_data_provider *provider, void *data),
               (session, priority, fields, count, provider, data))
WITHOUT_MEMORY(int, nghttp2_submit_trailer,
               (nghttp2_session * session, int32_t stream, const nghttp2_nv *fields, size_t count),
               (session, stream, fields, count))
WITHOUT_MEMORY(int, nghttp2_submit_rst_stream,
               (nghttp2_session * session, uint8_t flags, int32_t stream, uint32_t code),
               (session, flags, stream, code))
WITHOUT_MEMORY(int, nghttp2_submit_ping, (nghttp2_session * session, uint8_t flags, const uint8_t *data),
               (session, flags, data))
WITHOUT_MEMORY(int, nghttp2_submit_goaway,
               (nghttp2_session * session, uint8_t flags, int32_t last, uint32_t code, const uint8_t *data,
                size_t size),
               (session, flags, last, code, data, size))
WITHOUT_MEMORY(int, nghttp2_session_resume_data, (nghttp2_session * session, int32_t stream), (session, stream))
WITHOUT_MEMORY(int, nghttp2_session_consume_connection, (nghttp2_session * session, size_t size), (session, size))
WITHOUT_MEMORY(int, nghttp2_session_consume_stream, (nghttp2_session * session, int32_t stream, size_t size),
               (session, stream, size))
WITHOUT_MEMORY(ssize_t, nghttp2_session_mem_recv, (nghttp2_session * session, const uint8_t *bytes, size_t size),
               (session, bytes, size))
WITHOUT_MEMORY(ssize_t, nghttp2_session_mem_send, (nghttp2_session * session, const uint8_t **bytes), (session, bytes))
