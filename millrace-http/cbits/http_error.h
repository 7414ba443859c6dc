/*
 * http_error.h - all reasons for refusing a request, with the status code of each. Must not know: requests, sockets.
 *
 * After such an error the server cannot know where the next request begins. So it answers and closes the connection
 * (RFC 9112, section 9.6).
 */
#ifndef HTTP_ERROR_H
#define HTTP_ERROR_H

/* X(NAME, number, status, "what was wrong") */
#define HTTP_ERRORS(X)                                                                \
    X(REQUEST_LINE, -1, 400, "malformed request line")                                \
    X(TARGET, -2, 400, "invalid request target")                                      \
    X(FIELD, -3, 400, "malformed header field line")                                  \
    X(VALUE, -4, 400, "control character in a field value")                           \
    X(HOST, -5, 400, "missing, repeated or invalid Host")                             \
    X(CONTENT_LENGTH, -6, 400, "invalid or repeated Content-Length")                  \
    X(TRANSFER_ENCODING, -7, 400, "invalid Transfer-Encoding")                        \
    X(FRAMING, -8, 400, "Transfer-Encoding together with Content-Length or HTTP/1.0") \
    X(UNKNOWN_CODING, -9, 501, "unknown transfer coding")                             \
    X(LONG_METHOD, -10, 501, "method too long")                                       \
    X(VERSION, -11, 505, "HTTP version not supported")                                \
    X(LONG_TARGET, -12, 414, "request target too long")                               \
    X(LONG_HEAD, -13, 431, "header section too long")                                 \
    X(MANY_FIELDS, -14, 431, "too many header fields")                                \
    X(CHUNK, -15, 400, "malformed chunk")                                             \
    X(LONG_EXTENSION, -16, 400, "chunk extensions too long")                          \
    X(LONG_TRAILER, -17, 431, "trailer section too long")

typedef enum http_error {
#define HTTP_ERROR_ENUM(name, number, status, text) HTTP_ERROR_##name = number,
    HTTP_ERRORS(HTTP_ERROR_ENUM)
#undef HTTP_ERROR_ENUM
        HTTP_ERROR_NONE = 0
} http_error;

/* The status code for an error; 500 for an unknown number. */
int http_error_status(int error);

/* A short text that says what was wrong. */
const char *http_error_text(int error);

#endif
