/* http_date.c - HTTP dates without the C library's locale and time zone. */
#define _POSIX_C_SOURCE 200809L
#include "http_date.h"

#include <string.h>
#include <time.h>

static const char day_names[] = "SunMonTueWedThuFriSat";
static const char month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static void put_digits(uint8_t *at, int64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--) {
        at[i] = (uint8_t)('0' + value % 10);
        value /= 10;
    }
}

/* Days since 1970 of a date in the Gregorian calendar, counting years from March so that leap days come last. */
static int64_t days_of_date(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = year / 400, year_of_era = year % 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static void date_of_days(int64_t days, int64_t *year, int *month, int *day)
{
    days += 719468;
    int64_t era = days / 146097, day_of_era = days % 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month_from_march = (int)((5 * day_of_year + 2) / 153);
    *day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    *month = month_from_march + (month_from_march < 10 ? 3 : -9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

void http_date_write(int64_t seconds, uint8_t *destination)
{
    int64_t days = seconds / 86400, second = seconds % 86400, year;
    int month, day;
    date_of_days(days, &year, &month, &day);
    memcpy(destination, "ddd, 00 mmm 0000 00:00:00 GMT", HTTP_DATE_LENGTH);
    memcpy(destination, day_names + 3 * ((days + 4) % 7), 3);
    put_digits(destination + 5, day, 2);
    memcpy(destination + 8, month_names + (ptrdiff_t)3 * (month - 1), 3);
    put_digits(destination + 12, year, 4);
    put_digits(destination + 17, second / 3600, 2);
    put_digits(destination + 20, second / 60 % 60, 2);
    put_digits(destination + 23, second % 60, 2);
}

int64_t http_date_current(void)
{
#ifdef CLOCK_REALTIME_COARSE
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
#else
    return time(NULL);
#endif
}

void http_date_now(uint8_t *destination)
{
    /* For each thread, because a shared date would need a lock. */
    static _Thread_local int64_t rendered_second = -1;
    static _Thread_local uint8_t rendered[HTTP_DATE_LENGTH];
    int64_t second = http_date_current();
    if (second != rendered_second) {
        http_date_write(second, rendered);
        rendered_second = second;
    }
    memcpy(destination, rendered, HTTP_DATE_LENGTH);
}

/* A number of exactly `digits` digits, or -1. A leading blank stands for a zero if `blank` is set (asctime). */
static int64_t get_digits(const uint8_t *at, int digits, int blank)
{
    int64_t value = 0;
    for (int i = 0; i < digits; i++) {
        if (blank && i == 0 && at[0] == ' ')
            continue;
        if (at[i] < '0' || at[i] > '9')
            return -1;
        value = value * 10 + (at[i] - '0');
    }
    return value;
}

static int get_month(const uint8_t *at)
{
    for (int month = 0; month < 12; month++)
        if (memcmp(at, month_names + (ptrdiff_t)3 * month, 3) == 0)
            return month + 1;
    return -1;
}

static int64_t get_time(const uint8_t *at)
{
    int64_t hour = get_digits(at, 2, 0), minute = get_digits(at + 3, 2, 0), second = get_digits(at + 6, 2, 0);
    if (at[2] != ':' || at[5] != ':' || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
        return -1;
    return hour * 3600 + minute * 60 + second;
}

static int64_t combine(int64_t year, int month, int64_t day, int64_t time_of_day)
{
    if (year < 1 || month < 1 || day < 1 || day > 31 || time_of_day < 0)
        return -1;
    int64_t days = days_of_date(year, month, (int)day), same_year;
    int same_month, same_day;
    date_of_days(days, &same_year, &same_month, &same_day);
    if (same_day != day) /* Reject dates such as 30 February. */
        return -1;
    int64_t seconds = days * 86400 + time_of_day;
    return seconds < 0 ? 0 : seconds; /* No file is older than the epoch, and -1 means that there is no date. */
}

/* RFC 9110, section 5.6.7: if the year seems to be more than 50 years ahead, it is the latest past year with these
   digits. */
static int64_t full_year(int64_t two_digits)
{
    int64_t this_year;
    int month, day;
    date_of_days((int64_t)time(NULL) / 86400, &this_year, &month, &day);
    int64_t year = this_year - this_year % 100 + two_digits;
    return year > this_year + 50 ? year - 100 : year;
}

int64_t http_date_read(const uint8_t *text, size_t length)
{
    if (length == HTTP_DATE_LENGTH && memcmp(text + 3, ", ", 2) == 0 && text[7] == ' ' && text[11] == ' ' &&
        text[16] == ' ' && memcmp(text + 25, " GMT", 4) == 0)
        return combine(get_digits(text + 12, 4, 0), get_month(text + 8), get_digits(text + 5, 2, 0),
                       get_time(text + 17));
    if (length == 24 && text[3] == ' ' && text[7] == ' ' && text[10] == ' ' && text[19] == ' ')
        return combine(get_digits(text + 20, 4, 0), get_month(text + 4), get_digits(text + 8, 2, 1),
                       get_time(text + 11));
    const uint8_t *comma = memchr(text, ',', length);
    if (comma != NULL && text + length - comma == 24 && memcmp(comma + 20, " GMT", 4) == 0 && comma[1] == ' ' &&
        comma[11] == ' ') {
        int64_t two_digits = get_digits(comma + 9, 2, 0);
        if (two_digits < 0 || comma[4] != '-' || comma[8] != '-')
            return -1;
        return combine(full_year(two_digits), get_month(comma + 5), get_digits(comma + 2, 2, 0), get_time(comma + 12));
    }
    return -1;
}
