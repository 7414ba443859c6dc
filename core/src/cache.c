/*
 * cache.c: see cache.h.
 *
 * Two system calls give information. A read that may not wait (RWF_NOWAIT) tells whether one byte is in memory, and
 * begins to read it if it is not; overlayfs, tmpfs and some others refuse it. cachestat (Linux 6.5) counts the pages in
 * memory, but also those that are still being read; it refuses another user's file that was not opened for writing
 * (Linux 6.14), and on overlayfs it counts none.
 *
 * Up to 64 KiB the last byte is enough, because readahead reads it last. For more, the pages are counted first, to find
 * gaps; if none is missing, the last byte tells whether they have been read. If they cannot be counted, the first byte
 * is read instead, because pages leave memory in the order in which they came.
 */
#include "cache.h"

#ifdef __linux__
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* For up to this many bytes, only the last one is tested. */
enum { WITHOUT_GAPS = 1 << 16 };

/* The result of reading one byte. FAILS: the read fails for another reason, at once, as the next read will. */
typedef enum probed { IS_THERE, IS_ABSENT, IS_UNKNOWN, IS_PAST_THE_END, FAILS } probed;

static probed probe(int file, uint64_t at, unsigned *calls)
{
    char byte;
    struct iovec vector = {.iov_base = &byte, .iov_len = 1};
    *calls += 1;
    ssize_t count = preadv2(file, &vector, 1, (off_t)at, RWF_NOWAIT);
    if (count >= 0)
        return count ? IS_THERE : IS_PAST_THE_END;
    if (errno == EAGAIN || errno == EINTR)
        return IS_ABSENT;
    return errno == EOPNOTSUPP || errno == ENOSYS ? IS_UNKNOWN : FAILS;
}

static uint64_t pages_of(uint64_t offset, uint64_t length)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (offset + length - 1) / page - offset / page + 1;
}

/* Counts the pages that are in memory or being read; -1: the system cannot tell. */
static int64_t count_pages(int file, uint64_t offset, uint64_t length, unsigned *calls)
{
    static atomic_bool is_missing;
    struct {
        uint64_t offset, length;
    } range = {offset, length};
    struct {
        uint64_t cached, dirty, in_writeback, evicted, recently_evicted;
    } found;
    if (atomic_load_explicit(&is_missing, memory_order_relaxed))
        return -1;
    *calls += 1;
    if (syscall(SYS_cachestat, file, &range, &found, 0) == 0)
        return (int64_t)found.cached;
    if (errno == ENOSYS)
        atomic_store_explicit(&is_missing, true, memory_order_relaxed);
    return -1;
}

/* Whether the system allows reads that may not wait. Tests that at an offset where no file has a byte, so nothing is
 * read. */
static bool can_tell(int file, unsigned *calls)
{
    return probe(file, INT64_MAX - 1, calls) != IS_UNKNOWN;
}

/* The end of the range or of the file, whichever comes first. */
static uint64_t end_within(int file, uint64_t offset, uint64_t length, unsigned *calls)
{
    struct stat status;
    *calls += 1;
    if (fstat(file, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size < 0)
        return offset;
    uint64_t end = (uint64_t)status.st_size;
    return end < offset + length ? end : offset + length;
}

static mr_cache_state state_of(probed byte)
{
    switch (byte) {
    case IS_ABSENT:
        return MR_NOT_IN_CACHE;
    case IS_UNKNOWN:
        return MR_CACHE_UNKNOWN;
    case IS_THERE:
    case IS_PAST_THE_END:
    case FAILS:
        break;
    }
    return MR_IN_CACHE;
}

static mr_cache_state state_at_end(int file, uint64_t offset, uint64_t length, unsigned *calls)
{
    probed last = probe(file, offset + length - 1, calls);
    if (last != IS_PAST_THE_END)
        return state_of(last);
    uint64_t end = end_within(file, offset, length, calls);
    return end > offset ? state_of(probe(file, end - 1, calls)) : MR_IN_CACHE;
}

static mr_cache_state state_of_missing(int file, uint64_t offset, uint64_t length, int64_t count, unsigned *calls)
{
    if (!can_tell(file, calls))
        return MR_CACHE_UNKNOWN;
    uint64_t end = end_within(file, offset, length, calls);
    if (end <= offset)
        return MR_IN_CACHE;
    return count < (int64_t)pages_of(offset, end - offset) ? MR_NOT_IN_CACHE : state_of(probe(file, end - 1, calls));
}

mr_cache_state mr_cache_probe(int file, uint64_t offset, uint64_t length, unsigned *calls)
{
    if (length == 0 || offset > INT64_MAX ||
        length > INT64_MAX - offset) /* preadv2 takes the offset -1 for the file's position */
        return MR_IN_CACHE;
    if (length <= WITHOUT_GAPS)
        return state_at_end(file, offset, length, calls);
    int64_t count = count_pages(file, offset, length, calls);
    if (count >= 0 && count < (int64_t)pages_of(offset, length))
        return state_of_missing(file, offset, length, count, calls);
    mr_cache_state first = count < 0 ? state_of(probe(file, offset, calls)) : MR_IN_CACHE;
    return first == MR_IN_CACHE ? state_at_end(file, offset, length, calls) : first;
}
#else
mr_cache_state mr_cache_probe(int file, uint64_t offset, uint64_t length, unsigned *calls)
{
    (void)file, (void)offset, (void)calls;
    return length == 0 ? MR_IN_CACHE : MR_CACHE_UNKNOWN;
}
#endif

mr_cache_state mr_file_cache_state(int file, uint64_t offset, uint64_t length)
{
    unsigned calls = 0;
    return mr_cache_probe(file, offset, length, &calls);
}
