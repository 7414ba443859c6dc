/* texts.c - the small readers of texts: names, tokens, errors, bytes, dates, authorities. Must not know: sockets. */
#include "memory_test.h"

#include "http_authority.h"
#include "http_bytes.h"
#include "http_date.h"
#include "http_error.h"
#include "http_names.h"

#include <ctype.h>
#include <strings.h>
#include <time.h>

/* Names *********************************************************************************************************** */

static http_name find(const char *name, size_t length)
{
    uint8_t *copy = malloc(length + 1); /* exactly as long, so that a sanitizer finds reads beyond it */
    CHECK(copy);
    memcpy(copy, name, length);
    http_name found = http_name_find(copy, length);
    free(copy);
    return found;
}

/* A name is known if and only if it is that of the table, in any case. */
static void check_name(const char *name, size_t length)
{
    http_name found = find(name, length);
    const char *text = http_name_text((int)found);
    bool is_same = length > 0 && strlen(text) == length && strncasecmp(text, name, length) == 0;
    CHECK_EQ(found != HTTP_NAME_OTHER, is_same);
}

void known_names(uintptr_t unused)
{
    (void)unused;
    CHECK_EQ(strlen(http_name_text(HTTP_NAME_OTHER)), 0);
    CHECK_EQ(strlen(http_name_text(-1)), 0);
    CHECK_EQ(strlen(http_name_text(HTTP_NAME_COUNT)), 0);
    for (int number = 1; number < HTTP_NAME_COUNT; number++) {
        char name[64] = "";
        size_t length = strlen(http_name_text(number));
        memcpy(name, http_name_text(number), length);
        CHECK_EQ(find(name, length), number);
        for (size_t i = 0; i < length; i++) {
            char original = name[i];
            name[i] = (char)(isupper((unsigned char)original) ? tolower((unsigned char)original)
                                                              : toupper((unsigned char)original));
            CHECK_EQ(find(name, length), number);
            name[i] = original == '~' ? '!' : '~';
            CHECK_EQ(find(name, length), HTTP_NAME_OTHER);
            name[i] = original;
            check_name(name, i);
        }
        name[length] = 's';
        check_name(name, length + 1);
    }
    /* No name has these lengths. */
    char long_name[100];
    memset(long_name, 'a', sizeof long_name);
    for (size_t length = 0; length <= sizeof long_name; length++)
        check_name(long_name, length);
}

static unsigned tokens_of(const char *value)
{
    return http_connection_tokens((const uint8_t *)value, strlen(value));
}

void lists_of_tokens(uintptr_t unused)
{
    (void)unused;
    CHECK_EQ(tokens_of(""), 0);
    CHECK_EQ(tokens_of(" ,\t, ,"), 0);
    CHECK_EQ(tokens_of("close"), HTTP_TOKEN_CLOSE);
    CHECK_EQ(tokens_of("CLOSE \t,"), HTTP_TOKEN_CLOSE);
    CHECK_EQ(tokens_of(",Keep-Alive"), HTTP_TOKEN_KEEP_ALIVE);
    CHECK_EQ(tokens_of("closed"), HTTP_TOKEN_OTHER);
    CHECK_EQ(tokens_of("clos"), HTTP_TOKEN_OTHER);
    CHECK_EQ(tokens_of("clo e"), HTTP_TOKEN_OTHER);
    CHECK_EQ(tokens_of("close, keep-alive , upgrade"), HTTP_TOKEN_CLOSE | HTTP_TOKEN_KEEP_ALIVE | HTTP_TOKEN_OTHER);
    CHECK(http_same_token((const uint8_t *)"[Z", 2, "[z") && !http_same_token((const uint8_t *)"{", 1, "["));
}

/* Errors ********************************************************************************************************** */

void errors(uintptr_t unused)
{
    (void)unused;
    static const int all[] = {
#define NUMBER(name, number, status, text) HTTP_ERROR_##name,
        HTTP_ERRORS(NUMBER)
#undef NUMBER
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int status = http_error_status(all[i]);
        CHECK(all[i] < 0 && status >= 400 && status < 600);
        CHECK(strlen(http_error_text(all[i])) > 0 && strcmp(http_error_text(all[i]), "unknown error") != 0);
        for (size_t other = 0; other < i; other++)
            CHECK(all[i] != all[other] && strcmp(http_error_text(all[i]), http_error_text(all[other])) != 0);
    }
    CHECK_EQ(http_error_status(HTTP_ERROR_FRAMING), 400);
    CHECK_EQ(http_error_status(HTTP_ERROR_LONG_TARGET), 414);
    CHECK_EQ(http_error_status(HTTP_ERROR_MANY_FIELDS), 431);
    CHECK_EQ(http_error_status(HTTP_ERROR_UNKNOWN_CODING), 501);
    CHECK_EQ(http_error_status(HTTP_ERROR_VERSION), 505);
    CHECK_EQ(http_error_status(1), 500);
    CHECK_EQ(strcmp(http_error_text(1), "unknown error"), 0);
}

/* Bytes *********************************************************************************************************** */

static bool is_in_token(int byte)
{
    return byte != 0 && byte < 0x80 && (isalnum(byte) || strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool is_in_value(int byte)
{
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

/* Every byte at every position of short strings: what is skipped in words of eight and in fours is the same as byte
 * by byte. */
void classes_of_bytes(uintptr_t unused)
{
    (void)unused;
    enum { LONGEST = 19 };
    CHECK(!http_is_token((const uint8_t *)"", 0) && http_is_field_value((const uint8_t *)"", 0));
    for (int byte = 0; byte < 256; byte++)
        for (size_t length = 1; length <= LONGEST; length++)
            for (size_t at = 0; at < length; at++) {
                uint8_t *bytes = malloc(length);
                CHECK(bytes);
                memset(bytes, 'a', length);
                bytes[at] = (uint8_t)byte;
                CHECK_EQ(http_is_token(bytes, length), is_in_token(byte));
                CHECK_EQ(http_is_field_value(bytes, length), is_in_value(byte));
                const uint8_t *end = bytes + length;
                CHECK(http_skip_value(bytes, end) == (is_in_value(byte) ? end : bytes + at));
                CHECK(http_skip_class(bytes, end, HTTP_BYTE_TOKEN) == (is_in_token(byte) ? end : bytes + at));
                /* Another one behind it must not hide it. */
                bytes[length - 1] = 1;
                CHECK(http_skip_value(bytes, end) == (is_in_value(byte) ? end - 1 : bytes + at));
                free(bytes);
            }
}

/* Dates *********************************************************************************************************** */

static const char imf[] = "%a, %d %b %Y %H:%M:%S GMT";
static const char rfc850[] = "%A, %d-%b-%y %H:%M:%S GMT";
static const char asctime_form[] = "%a %b %e %H:%M:%S %Y";

static int64_t read_date(const char *text, size_t length)
{
    uint8_t *copy = malloc(length + 1);
    CHECK(copy);
    memcpy(copy, text, length);
    int64_t seconds = http_date_read(copy, length);
    free(copy);
    return seconds;
}

static size_t format(char text[64], const char *form, time_t seconds)
{
    struct tm parts;
    CHECK(gmtime_r(&seconds, &parts));
    size_t length = strftime(text, 64, form, &parts);
    CHECK_GT(length, 0);
    return length;
}

void dates_as_the_c_library(uintptr_t unused)
{
    (void)unused;
    const int64_t last = 253402300799; /* of the year 9999 */
    /* Steps of about 18 days: each month of each year. */
    for (int64_t seconds = 0; seconds <= last; seconds += INT64_C(1468817) + 86399) {
        char text[64];
        uint8_t written[HTTP_DATE_LENGTH];
        size_t length = format(text, imf, (time_t)seconds);
        CHECK_EQ(length, HTTP_DATE_LENGTH);
        http_date_write(seconds, written);
        CHECK_MEMORY(written, text, HTTP_DATE_LENGTH);
        CHECK_EQ(read_date(text, length), seconds);
        length = format(text, asctime_form, (time_t)seconds);
        CHECK_EQ(read_date(text, length), seconds);
    }
    /* The current one, twice in a second and thread. */
    for (int i = 0; i < 2; i++) {
        uint8_t now[HTTP_DATE_LENGTH];
        int64_t before = http_date_current();
        http_date_now(now);
        int64_t seconds = http_date_read(now, sizeof now);
        CHECK(before <= seconds && seconds <= http_date_current());
    }
}

/* A weekday is not looked at: everything else counts. */
static void check_every_byte(const char *form, size_t first)
{
    char text[64];
    size_t length = format(text, form, 784111777); /* Sun, 06 Nov 1994 08:49:37 GMT */
    CHECK_EQ(read_date(text, length), 784111777);
    CHECK_EQ(read_date(text, length - 1), -1);
    for (size_t i = first; i < length; i++) {
        char original = text[i];
        static const char others[] = {'/', '?', 'x'};
        for (size_t other = 0; other < sizeof others; other++) {
            text[i] = others[other];
            CHECK_EQ(read_date(text, length), -1);
        }
        text[i] = original;
    }
}

void dates_refused(uintptr_t unused)
{
    (void)unused;
    static const char *const refused[] = {
        "",
        "0",
        "Sun, 06 Nov 1994 08:49:37 PST",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 32 Dec 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 30 Feb 1996 08:49:37 GMT",
        "Sun, 29 Feb 1995 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 23:60:00 GMT",
        "Sun, 06 Nov 1994 23:59:61 GMT",
        "Sun, 06 Nov 1994 08.49:37 GMT",
        "Sun, 06 Nov 1994 08:49.37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov 94 08:49:37 GMT",
        "Sunday, 06 Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 199",
        "Sun Nov   608:49:37 1994",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_EQ(read_date(refused[i], strlen(refused[i])), -1);
    check_every_byte(imf, 3);
    check_every_byte(rfc850, sizeof "Sunday" - 1);
    check_every_byte(asctime_form, 3);
    /* A leap second, a leap day, and a date before 1970, when no file was made. */
    static const char leap_second[] = "Sat, 31 Dec 2016 23:59:60 GMT", leap_day[] = "Tue, 29 Feb 2000 00:00:00 GMT";
    CHECK_EQ(read_date(leap_second, HTTP_DATE_LENGTH), 1483228800);
    CHECK_EQ(read_date(leap_day, HTTP_DATE_LENGTH), 951782400);
    CHECK_EQ(read_date("Wed, 31 Dec 1969 23:59:59 GMT", HTTP_DATE_LENGTH), 0);
}

/* A year of two digits is not more than 50 years ahead (RFC 9110, section 5.6.7). */
void dates_of_two_digits(uintptr_t unused)
{
    (void)unused;
    time_t now = time(NULL);
    struct tm today;
    CHECK(gmtime_r(&now, &today));
    for (int ahead = -49; ahead <= 50; ahead++) {
        struct tm parts = {.tm_year = today.tm_year + ahead, .tm_mon = 6, .tm_mday = 15};
        time_t seconds = timegm(&parts);
        char text[64];
        size_t length = format(text, rfc850, seconds);
        CHECK_EQ(read_date(text, length), seconds < 0 ? 0 : seconds);
    }
}

/* Authorities ***************************************************************************************************** */

static bool is_valid(const char *text)
{
    uint8_t *copy = malloc(strlen(text) + 1);
    CHECK(copy);
    memcpy(copy, text, strlen(text));
    bool is = http_authority_is_valid(copy, strlen(text));
    /* What CONNECT may ask for is valid elsewhere, too. */
    CHECK(is || !http_authority_is_target(copy, strlen(text)));
    free(copy);
    return is;
}

void authorities(uintptr_t unused)
{
    (void)unused;
    static const char *const valid[] = {
        "a",
        "example.org",
        "example.org:",
        "example.org:0",
        "example.org:65535",
        "127.0.0.1:80",
        "a%20b",
        "%41%5a:1",
        "[::]",
        "[::1]:443",
        "[1::]",
        "[1:2:3:4:5:6:7:8]",
        "[1::3:4:5:6:7:8]",
        "[::1.2.3.4]",
        "[1:2:3:4:5:6:255.0.10.99]",
        "[fe80::ABCD]",
        "[v1.a]",
        "[vF.a:b]",
    };
    static const char *const refused[] = {
        "",
        ":80",
        "a:65536",
        "a:99999999999",
        "a:8x",
        "a:8/",
        "a b",
        "user@a",
        "a%",
        "a%2",
        "a%2x",
        "a%zz",
        "[",
        "[]",
        "[::1",
        "[::1]x",
        "[:]",
        "[:::]",
        "[1]",
        "[1:2:3:4:5:6:7]",
        "[1:2:3:4:5:6:7:8:9]",
        "[1:2:3:4:5:6:7:8::]",
        "[1::2::3]",
        "[1:]",
        "[12345::]",
        "[g::]",
        "[1-2]",
        "[::1.2.3]",
        "[::1.2.3.4.5]",
        "[::1.2.3.256]",
        "[::1.2.3.04]",
        "[::1.2.3.]",
        "[::.1.2.3]",
        "[::1.2.3:4]",
        "[1:2:3:4:5:6:7:1.2.3.4]",
        "[v.a]",
        "[v1]",
        "[v1.]",
        "[v1a]",
        "[vg.a]",
        "[v1.a/]",
        "[w1.a]",
    };
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
        if (!is_valid(valid[i]))
            FAIL("%s is refused", valid[i]);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_valid(refused[i]))
            FAIL("%s is accepted", refused[i]);
    CHECK(http_authority_is_target((const uint8_t *)"a:1", 3));
    CHECK(!http_authority_is_target((const uint8_t *)"a:0", 3));
    CHECK(!http_authority_is_target((const uint8_t *)"a:", 2));
    CHECK(!http_authority_is_target((const uint8_t *)"a", 1));
}
