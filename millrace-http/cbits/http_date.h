/*
 * http_date.h - HTTP dates (RFC 9110, section 5.6.7): the current one, rendered once a second and thread, and parsing
 * of all three formats. Must not know: requests, responses.
 */
#ifndef HTTP_DATE_H
#define HTTP_DATE_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_DATE_LENGTH 29u /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* Seconds since 1970, from a clock that may be late by one tick of the kernel (a few milliseconds). */
int64_t http_date_current(void);

/* Writes the current date, HTTP_DATE_LENGTH bytes. */
void http_date_now(uint8_t *destination);

/* Writes the date for `seconds` since 1970, HTTP_DATE_LENGTH bytes. The year must be from 1970 to 9999. */
void http_date_write(int64_t seconds, uint8_t *destination);

/* Seconds since 1970 of an IMF-fixdate, RFC 850 or asctime date; -1 if it is none of them. */
int64_t http_date_read(const uint8_t *text, size_t length);

#endif
