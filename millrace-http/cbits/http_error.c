/* http_error.c - the status code and text of each reason for refusing a request. */
#include "http_error.h"

int http_error_status(int error)
{
    switch (error) {
#define STATUS(name, number, status, text) \
    case number:                           \
        return status;
        HTTP_ERRORS(STATUS) /* NOLINT(bugprone-branch-clone): many errors have the same status */
#undef STATUS
    default:
        return 500;
    }
}

const char *http_error_text(int error)
{
    switch (error) {
#define TEXT(name, number, status, text) \
    case number:                         \
        return text;
        HTTP_ERRORS(TEXT)
#undef TEXT
    default:
        return "unknown error";
    }
}
