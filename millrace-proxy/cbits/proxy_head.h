/*
 * proxy_head.h - where the parts of a response's head are. In C, because every byte of every head is looked at. What a
 * field means is decided in Haskell. Must not know: GHC, sockets.
 */
#ifndef PROXY_HEAD_H
#define PROXY_HEAD_H

#include <stddef.h>
#include <stdint.h>

/* Copies bytes in lower case. */
void proxy_fold_case(uint8_t *destination, const uint8_t *bytes, size_t size);

/* What was found in a head. */
enum {
    PROXY_HEAD_COMPLETE,
    PROXY_HEAD_INCOMPLETE,
    PROXY_HEAD_BARE_LF, /* a line that ends with LF alone */
    PROXY_HEAD_BAD_STATUS,
    PROXY_HEAD_NO_COLON,
    PROXY_HEAD_BAD_NAME,
    PROXY_HEAD_BAD_VALUE,
    PROXY_HEAD_TOO_MANY /* more fields than the head has capacity for */
};

/* The position of a field in the head: offsets and sizes. The value is without the blanks at its ends. */
typedef struct proxy_field {
    uint32_t name, name_size;
    uint32_t value, value_size;
} proxy_field;

typedef struct proxy_head {
    uint32_t size;  /* of the head, with the blank line */
    uint32_t minor; /* of the version: HTTP/1.minor */
    uint32_t status;
    uint32_t reason, reason_size;
    uint32_t count; /* of the fields */
    proxy_field fields[];
} proxy_head;

/* Parses the line of one field, without its end, of less than 4 GiB. */
int proxy_field_parse(const uint8_t *line, size_t size, proxy_field *field);

/* Parses the head of a response of less than 4 GiB into a proxy_head with memory for `capacity` fields. Only CR LF ends
   a line. */
int proxy_head_parse(const uint8_t *bytes, size_t size, proxy_head *head, size_t capacity);

#endif
