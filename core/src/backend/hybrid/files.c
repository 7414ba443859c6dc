/* files.c: see files.h. Must not know: epoll. */
#include "files.h"
#include "../../perform.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RING_ENTRIES = 256, COMPLETION_ENTRIES = 2048, REAP = 64 };

/* user_data of cancellations, whose completions are ignored. No token is that small. */
enum { TAG_CANCEL = 1 };

typedef enum file_queue { IN_NO_QUEUE, AWAITS_SUBMISSION, AWAITS_CANCELLATION } file_queue;

/* The backend's data of an operation on a file. */
typedef struct file_slot {
    file_queue queue;
    uint8_t faults; /* see mr_uring_result_on_file */
} file_slot;

/* The backend's data of a descriptor, which epoll may watch too. It does not notice flags that the program changes
 * later. */
typedef struct file_descriptor {
    mr_readiness_descriptor readiness;
    bool is_known;
    bool has_positions;
    bool is_direct; /* O_DIRECT */
} file_descriptor;

static file_slot *file_slot_of(const mr_slot *slot)
{
    static_assert(sizeof(file_slot) <= sizeof slot->backend_data, "it fits");
    return (file_slot *)&slot->backend_data;
}

static const file_descriptor *inspect(mr_loop *loop, mr_descriptor *descriptor)
{
    static_assert(sizeof(file_descriptor) <= sizeof descriptor->backend_data, "it fits");
    file_descriptor *known = (file_descriptor *)&descriptor->backend_data;
    if (known->is_known)
        return known;
    mr_count(&loop->counters.system_calls, 1);
    known->has_positions = mr_uring_has_positions(loop, descriptor->number);
    known->is_direct = fcntl(descriptor->number, F_GETFL) & O_DIRECT;
    known->is_known = true;
    return known;
}

/* ------------------------------------------------------------------------------------------------- submission --- */

/* The kernel may refuse because it lacks memory, or because completions must be reaped first. */
static void hand_over(mr_loop *loop, mr_files *files)
{
    if (!files->unsubmitted)
        return;
    mr_count(&loop->counters.system_calls, 1);
    if (io_uring_submit(&files->ring) >= 0)
        files->unsubmitted = io_uring_sq_ready(&files->ring);
}

static struct io_uring_sqe *next_entry(mr_loop *loop, mr_files *files)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&files->ring);
    if (!entry) {
        hand_over(loop, files);
        entry = io_uring_get_sqe(&files->ring);
    }
    if (entry)
        files->unsubmitted++;
    return entry;
}

static void prepare(struct io_uring_sqe *entry, mr_slot *slot, bool is_cancellation)
{
    if (is_cancellation) {
        io_uring_prep_cancel64(entry, slot->token, 0);
        entry->user_data = TAG_CANCEL;
    } else {
        mr_uring_prepare_file(entry, slot);
        entry->user_data = slot->token;
    }
}

static void push_backlog(mr_files *files, mr_slot *slot, file_queue purpose)
{
    file_slot_of(slot)->queue = purpose;
    mr_slot_queue_push(&files->backlog, slot);
}

static void leave_backlog(mr_files *files, mr_slot *slot)
{
    mr_slot_queue_remove(&files->backlog, slot);
    file_slot_of(slot)->queue = IN_NO_QUEUE;
}

static void enqueue(mr_loop *loop, mr_files *files, mr_slot *slot)
{
    struct io_uring_sqe *entry = files->backlog.first ? NULL : next_entry(loop, files);
    if (entry)
        prepare(entry, slot, false);
    else
        push_backlog(files, slot, AWAITS_SUBMISSION);
}

static int64_t read_from_cache(mr_loop *loop, const mr_slot *slot, size_t from, size_t count)
{
    struct iovec vector = {.iov_base = (char *)slot->request.buffer + from, .iov_len = count};
    mr_count(&loop->counters.system_calls, 1);
    return preadv2(mr_slot_number(slot), &vector, 1, (off_t)(slot->request.offset + from), RWF_NOWAIT);
}

/*
 * Reads if all bytes are in the page cache; otherwise returns -EAGAIN. A short read may mean the end of the file, or
 * that only those bytes were in the cache. A second read tells: at the end of the file it finds none. Errors are left
 * to the ring, which reports them.
 */
static int64_t read_cached(mr_loop *loop, const mr_slot *slot)
{
    size_t wanted = mr_file_bytes(&slot->request);
    int64_t count = read_from_cache(loop, slot, 0, wanted);
    if (count < 0)
        return -EAGAIN;
    if ((size_t)count == wanted || count == 0)
        return count;
    return read_from_cache(loop, slot, (size_t)count, wanted - (size_t)count) == 0 ? count : -EAGAIN;
}

void mr_files_submit(mr_loop *loop, mr_files *files, mr_slot *slot)
{
    mr_kind kind = slot->request.kind;
    const file_descriptor *known = inspect(loop, slot->descriptor);
    if (kind != MR_SYNC_FILE && !known->has_positions) {
        mr_loop_settle(loop, slot, -ESPIPE);
        return;
    }
    /* A direct read would wait for the disk in spite of RWF_NOWAIT. */
    int64_t result = kind == MR_READ_FILE && !known->is_direct ? read_cached(loop, slot) : -EAGAIN;
    if (result == -EAGAIN || !mr_loop_settle(loop, slot, result))
        enqueue(loop, files, slot);
}

void mr_files_cancel(mr_loop *loop, mr_files *files, mr_slot *slot)
{
    if (file_slot_of(slot)->queue == AWAITS_SUBMISSION) {
        leave_backlog(files, slot);
        mr_perform_last(loop, slot);
        return;
    }
    struct io_uring_sqe *entry = next_entry(loop, files);
    if (entry)
        prepare(entry, slot, true);
    else
        push_backlog(files, slot, AWAITS_CANCELLATION);
}

static void submit_backlog(mr_loop *loop, mr_files *files)
{
    while (files->backlog.first) {
        struct io_uring_sqe *entry = next_entry(loop, files);
        if (!entry)
            return;
        mr_slot *slot = files->backlog.first;
        bool is_cancellation = file_slot_of(slot)->queue == AWAITS_CANCELLATION;
        leave_backlog(files, slot);
        prepare(entry, slot, is_cancellation);
    }
}

bool mr_files_flush(mr_loop *loop, mr_files *files)
{
    hand_over(loop, files);
    if (!files->unsubmitted && files->backlog.first) {
        submit_backlog(loop, files);
        hand_over(loop, files);
    }
    return !files->unsubmitted && !files->backlog.first;
}

/* ------------------------------------------------------------------------------------------------- completion --- */

static void complete(mr_loop *loop, mr_files *files, const struct io_uring_cqe *entry)
{
    mr_slot *slot = entry->user_data == TAG_CANCEL ? NULL : mr_loop_find(loop, entry->user_data);
    if (!slot || slot->state != MR_SLOT_PENDING)
        return;
    if (file_slot_of(slot)->queue) /* it ended by itself while its cancellation was in the backlog */
        leave_backlog(files, slot);
    int64_t result = mr_uring_result_on_file(loop, slot, entry->res, &file_slot_of(slot)->faults);
    if (result == -EAGAIN || !mr_loop_settle(loop, slot, result))
        enqueue(loop, files, slot);
}

void mr_files_reap(mr_loop *loop, mr_files *files)
{
    struct io_uring_cqe *entries[REAP];
    unsigned count = io_uring_peek_batch_cqe(&files->ring, entries, REAP);
    for (unsigned i = 0; i < count; i++)
        complete(loop, files, entries[i]);
    io_uring_cq_advance(&files->ring, count);
}

bool mr_files_have_work(mr_files *files)
{
    return files->unsubmitted || files->backlog.first || io_uring_cq_ready(&files->ring);
}

void mr_files_check(const mr_loop *loop, const mr_files *files)
{
    const mr_slot *last = NULL;
    size_t waiting = 0, found = 0;
    for (uint32_t i = 0; i < loop->slots.count; i++) {
        const mr_slot *slot = mr_pool_at(&loop->slots, i, sizeof *slot);
        waiting += slot->state == MR_SLOT_PENDING && mr_is_on_file(slot->request.kind) && file_slot_of(slot)->queue;
    }
    for (const mr_slot *slot = files->backlog.first; slot; last = slot, slot = slot->queued)
        MR_CHECK(slot->state == MR_SLOT_PENDING && mr_is_on_file(slot->request.kind) && ++found <= waiting);
    MR_CHECK(found == waiting && files->backlog.last == last);
}

/* --------------------------------------------------------------------------------------------------- lifetime --- */

int mr_files_open(mr_files *files)
{
    *files = (mr_files){0};
    int error = mr_uring_open(&files->ring, RING_ENTRIES, COMPLETION_ENTRIES, MR_URING_SHARED);
    if (!error)
        io_uring_ring_dontfork(&files->ring); /* a child that wrote to the shared memory would corrupt ours */
    return error;
}

void mr_files_close(mr_files *files)
{
    io_uring_queue_exit(&files->ring);
}

void mr_files_abandon(mr_files *files)
{
    close(files->ring.ring_fd);
}
