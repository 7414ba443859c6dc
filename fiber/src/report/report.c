/* report.c: switches reports on, and passes their lines to the program. */
#include "report.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool mf_reports_uncovered, mf_reports_held_locks;
unsigned mf_watchdog_limit_ms;

static void (*print_line)(const char *line);

/* Words separated by commas: "uncovered,locks,watchdog=100" (milliseconds). */
static void read_environment(void)
{
    const char *words = getenv("MILLRACE_FIBER_DEBUG");
    if (!words)
        return;
    mf_reports_uncovered |= strstr(words, "uncovered") != NULL;
    mf_reports_held_locks |= strstr(words, "locks") != NULL;
    const char *limit = strstr(words, "watchdog=");
    if (limit && !mf_watchdog_limit_ms)
        mf_watchdog_limit_ms = (unsigned)strtoul(limit + strlen("watchdog="), NULL, 10);
}

void mf_report_configure(const mr_carriers_options *options)
{
    print_line = options->report;
    mf_reports_uncovered = options->reports_uncovered_calls;
    mf_reports_held_locks = options->reports_held_locks;
    mf_watchdog_limit_ms = options->watchdog_ms;
    read_environment();
}

void mf_report(const char *format, ...)
{
    char line[768];
    va_list arguments;
    mr_fiber *fiber = mf_enter_core(); /* writing the line must not park the fiber */
    int error = errno;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (print_line)
        print_line(line);
    else
        fprintf(stderr, "millrace: %s\n", line);
    errno = error;
    mf_leave_core(fiber);
}

void mf_report_describe(char *text, const void *address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname)
        snprintf(text, MF_ADDRESS_TEXT_BYTES, "%p", address);
    else if (info.dli_sname)
        snprintf(text, MF_ADDRESS_TEXT_BYTES, "%s+0x%tx in %s", info.dli_sname,
                 (const char *)address - (char *)info.dli_saddr, info.dli_fname);
    else
        snprintf(text, MF_ADDRESS_TEXT_BYTES, "0x%tx in %s", (const char *)address - (char *)info.dli_fbase,
                 info.dli_fname);
}
