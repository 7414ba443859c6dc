/*
 * http_names.h - the field names that the server knows by number, so that names in requests are neither copied nor
 * folded to lower case. Must not know: requests, responses, sockets.
 *
 * The names are grouped by length, because the look-up branches on the length first. HTTP_NAME_OTHER stands for all
 * other names.
 */
#ifndef HTTP_NAMES_H
#define HTTP_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define HTTP_NAMES_2(X) X(TE, "TE")
#define HTTP_NAMES_3(X) X(AGE, "Age") X(VIA, "Via") X(DNT, "DNT")
#define HTTP_NAMES_4(X) X(HOST, "Host") X(DATE, "Date") X(ETAG, "ETag") X(VARY, "Vary") X(FROM, "From") X(LINK, "Link")
#define HTTP_NAMES_5(X) X(RANGE, "Range") X(ALLOW, "Allow")
#define HTTP_NAMES_6(X)                                                                                                \
    X(ACCEPT, "Accept") X(COOKIE, "Cookie") X(ORIGIN, "Origin") X(EXPECT, "Expect") X(SERVER, "Server")                \
    X(PRAGMA, "Pragma")
#define HTTP_NAMES_7(X)                                                                                                \
    X(REFERER, "Referer") X(UPGRADE, "Upgrade") X(TRAILER, "Trailer") X(EXPIRES, "Expires") X(ALT_SVC, "Alt-Svc")
#define HTTP_NAMES_8(X) X(IF_MATCH, "If-Match") X(IF_RANGE, "If-Range") X(LOCATION, "Location") X(PRIORITY, "Priority")
#define HTTP_NAMES_9(X) X(FORWARDED, "Forwarded") X(X_REAL_IP, "X-Real-IP") X(SEC_CH_UA, "Sec-CH-UA")
#define HTTP_NAMES_10(X)                                                                                               \
    X(USER_AGENT, "User-Agent") X(CONNECTION, "Connection") X(SET_COOKIE, "Set-Cookie") X(KEEP_ALIVE, "Keep-Alive")
#define HTTP_NAMES_11(X) X(RETRY_AFTER, "Retry-After") X(TRACEPARENT, "traceparent")
#define HTTP_NAMES_12(X)                                                                                               \
    X(CONTENT_TYPE, "Content-Type") X(MAX_FORWARDS, "Max-Forwards") X(X_REQUEST_ID, "X-Request-ID")
#define HTTP_NAMES_13(X)                                                                                               \
    X(AUTHORIZATION, "Authorization") X(CACHE_CONTROL, "Cache-Control") X(IF_NONE_MATCH, "If-None-Match")              \
    X(LAST_MODIFIED, "Last-Modified") X(ACCEPT_RANGES, "Accept-Ranges") X(CONTENT_RANGE, "Content-Range")
#define HTTP_NAMES_14(X)                                                                                               \
    X(CONTENT_LENGTH, "Content-Length") X(SEC_FETCH_MODE, "Sec-Fetch-Mode") X(SEC_FETCH_SITE, "Sec-Fetch-Site")        \
    X(SEC_FETCH_DEST, "Sec-Fetch-Dest") X(SEC_FETCH_USER, "Sec-Fetch-User") X(ACCEPT_CHARSET, "Accept-Charset")
#define HTTP_NAMES_15(X)                                                                                               \
    X(ACCEPT_ENCODING, "Accept-Encoding") X(ACCEPT_LANGUAGE, "Accept-Language") X(X_FORWARDED_FOR, "X-Forwarded-For")
#define HTTP_NAMES_16(X)                                                                                               \
    X(X_REQUESTED_WITH, "X-Requested-With") X(X_FORWARDED_HOST, "X-Forwarded-Host")                                    \
    X(CONTENT_ENCODING, "Content-Encoding") X(CONTENT_LANGUAGE, "Content-Language")                                    \
    X(CONTENT_LOCATION, "Content-Location") X(PROXY_CONNECTION, "Proxy-Connection")                                    \
    X(WWW_AUTHENTICATE, "WWW-Authenticate") X(SEC_CH_UA_MOBILE, "Sec-CH-UA-Mobile")
#define HTTP_NAMES_17(X)                                                                                               \
    X(IF_MODIFIED_SINCE, "If-Modified-Since") X(TRANSFER_ENCODING, "Transfer-Encoding")                                \
    X(X_FORWARDED_PROTO, "X-Forwarded-Proto") X(SEC_WEBSOCKET_KEY, "Sec-WebSocket-Key")
#define HTTP_NAMES_18(X) X(SEC_CH_UA_PLATFORM, "Sec-CH-UA-Platform")
#define HTTP_NAMES_19(X)                                                                                               \
    X(IF_UNMODIFIED_SINCE, "If-Unmodified-Since") X(PROXY_AUTHORIZATION, "Proxy-Authorization")                        \
    X(CONTENT_DISPOSITION, "Content-Disposition")
#define HTTP_NAMES_20(X) X(SEC_WEBSOCKET_ACCEPT, "Sec-WebSocket-Accept")
#define HTTP_NAMES_21(X) X(SEC_WEBSOCKET_VERSION, "Sec-WebSocket-Version")
#define HTTP_NAMES_22(X) X(SEC_WEBSOCKET_PROTOCOL, "Sec-WebSocket-Protocol")
#define HTTP_NAMES_24(X) X(SEC_WEBSOCKET_EXTENSIONS, "Sec-WebSocket-Extensions")
#define HTTP_NAMES_25(X)                                                                                               \
    X(UPGRADE_INSECURE_REQUESTS, "Upgrade-Insecure-Requests") X(STRICT_TRANSPORT_SECURITY, "Strict-Transport-Security")
#define HTTP_NAMES_27(X) X(ACCESS_CONTROL_ALLOW_ORIGIN, "Access-Control-Allow-Origin")
#define HTTP_NAMES_29(X) X(ACCESS_CONTROL_REQUEST_METHOD, "Access-Control-Request-Method")
#define HTTP_NAMES_30(X) X(ACCESS_CONTROL_REQUEST_HEADERS, "Access-Control-Request-Headers")

#define HTTP_NAMES(X)                                                                                                  \
    HTTP_NAMES_2(X) HTTP_NAMES_3(X) HTTP_NAMES_4(X) HTTP_NAMES_5(X) HTTP_NAMES_6(X) HTTP_NAMES_7(X) HTTP_NAMES_8(X)    \
    HTTP_NAMES_9(X) HTTP_NAMES_10(X) HTTP_NAMES_11(X) HTTP_NAMES_12(X) HTTP_NAMES_13(X) HTTP_NAMES_14(X)               \
    HTTP_NAMES_15(X) HTTP_NAMES_16(X) HTTP_NAMES_17(X) HTTP_NAMES_18(X) HTTP_NAMES_19(X) HTTP_NAMES_20(X)              \
    HTTP_NAMES_21(X) HTTP_NAMES_22(X) HTTP_NAMES_24(X) HTTP_NAMES_25(X) HTTP_NAMES_27(X) HTTP_NAMES_29(X)              \
    HTTP_NAMES_30(X)
/* clang-format on */

typedef enum http_name {
    HTTP_NAME_OTHER = 0,
#define HTTP_NAME_ENUM(name, text) HTTP_NAME_##name,
    HTTP_NAMES(HTTP_NAME_ENUM)
#undef HTTP_NAME_ENUM
        HTTP_NAME_COUNT
} http_name;

/* The spelling of a known name; "" for HTTP_NAME_OTHER and beyond. */
const char *http_name_text(int name);

/* The number of a name, in any case. The bytes must be token characters (RFC 9110, section 5.6.2). */
http_name http_name_find(const uint8_t *name, size_t length);

/* The tokens that a comma-separated list contained. */
#define HTTP_TOKEN_CLOSE      1u
#define HTTP_TOKEN_KEEP_ALIVE 2u
#define HTTP_TOKEN_OTHER      4u

/* Reads a Connection value (RFC 9110, section 7.6.1) as the set of HTTP_TOKEN_* that occur in it. */
unsigned http_connection_tokens(const uint8_t *value, size_t length);

/* Whether these bytes equal `text`, ignoring case. `text` must be lower case and consist of letters, digits and "-". */
int http_same_token(const uint8_t *bytes, size_t length, const char *text);

/*
 * Steps through a comma-separated list (RFC 9110, section 5.6.1): finds the next element that is not empty from
 * *position on, without the blanks around it. Returns 0 at the end of the list.
 */
int http_list_next(const uint8_t *value, size_t length, size_t *position, size_t *start, size_t *element_length);

#endif
