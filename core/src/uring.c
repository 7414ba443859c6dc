/* uring.c: see uring.h. Must not know: backends. */
#include "uring.h"
#include "attempt.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

static const struct {
    int opcode;
    const char *name;
} needed_opcodes[] = {
    {IORING_OP_ACCEPT, "ACCEPT"},   {IORING_OP_RECV, "RECV"},
    {IORING_OP_SEND, "SEND"},       {IORING_OP_RECVMSG, "RECVMSG"},
    {IORING_OP_SENDMSG, "SENDMSG"}, {IORING_OP_POLL_ADD, "POLL_ADD"},
    {IORING_OP_READ, "READ"},       {IORING_OP_WRITE, "WRITE"},
    {IORING_OP_FSYNC, "FSYNC"},     {IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"},
};

/* EXT_ARG (5.11): wait with a timeout without taking a submission entry. NODROP (5.5): no completion is lost when the
 * queue is full. FAST_POLL (5.7): a receive that would block does not occupy a kernel thread. */
#define NEEDED_FEATURES (IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_FAST_POLL)

/* The kernel frees a ring some time after it was closed, and until then counts its memory towards the user's
 * RLIMIT_MEMLOCK. So a ring that does not fit now may fit soon: after a restart, or where loops come and go. */
enum { MEMORY_TRIES = 20, MEMORY_PAUSE_MS = 5 };

int mr_uring_open(struct io_uring *ring, unsigned entries, unsigned completion_entries, unsigned delivery)
{
    int error = -ENOMEM;
    for (int i = 0; i < MEMORY_TRIES && error == -ENOMEM; i++) {
        struct io_uring_params params = {.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | delivery,
                                         .cq_entries = completion_entries};
        if (i > 0)
            (void)poll(NULL, 0, MEMORY_PAUSE_MS);
        error = io_uring_queue_init_params(entries, ring, &params);
    }
    return error;
}

static const char *missing_opcode(struct io_uring *ring)
{
    const char *missing = NULL;
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    if (!probe)
        return "PROBE";
    for (size_t i = 0; i < sizeof needed_opcodes / sizeof *needed_opcodes && !missing; i++)
        if (!io_uring_opcode_supported(probe, needed_opcodes[i].opcode))
            missing = needed_opcodes[i].name;
    io_uring_free_probe(probe);
    return missing;
}

static int refuse(int error, char *reason, size_t reason_size, const char *what, const char *detail)
{
    if (reason)
        snprintf(reason, reason_size, "%s%s%s", what, *detail ? ": " : "", detail);
    return error;
}

static const char *explain(int error)
{
    switch (error) {
    case -EPERM:
        return "io_uring_setup is forbidden here (seccomp profile or sysctl kernel.io_uring_disabled)";
    case -ENOSYS:
        return "this kernel has no io_uring";
    case -EINVAL:
        return "this kernel's io_uring is older than Linux 5.19";
    case -ENOMEM:
        return "no memory for a ring (RLIMIT_MEMLOCK)";
    default:
        return "io_uring_setup failed";
    }
}

/* Some seccomp profiles allow io_uring_setup and forbid io_uring_enter. */
static int try_submission(struct io_uring *ring)
{
    io_uring_prep_nop(io_uring_get_sqe(ring));
    int submitted = io_uring_submit_and_wait(ring, 1);
    return submitted < 0 ? submitted : 0;
}

int mr_uring_probe(char *reason, size_t reason_size)
{
    struct io_uring ring;
    int error = mr_uring_open(&ring, 8, 16, MR_URING_SHARED);
    if (error)
        return refuse(error, reason, reason_size, explain(error), strerror(-error));
    const char *missing = missing_opcode(&ring);
    bool lacks_features = (ring.features & NEEDED_FEATURES) != NEEDED_FEATURES;
    error = try_submission(&ring);
    io_uring_queue_exit(&ring);
    if (lacks_features)
        return refuse(-ENOSYS, reason, reason_size, "this kernel's io_uring lacks a feature", "");
    if (missing)
        return refuse(-ENOSYS, reason, reason_size, "this kernel's io_uring lacks an operation", missing);
    if (error)
        return refuse(error, reason, reason_size, "io_uring_enter is refused", strerror(-error));
    return 0;
}

bool mr_uring_has_positions(mr_loop *loop, int number)
{
    mr_count(&loop->counters.system_calls, 1);
    return preadv(number, NULL, 0, 0) == 0 || errno != ESPIPE;
}

void mr_uring_prepare_file(struct io_uring_sqe *entry, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    int number = mr_slot_number(slot);
    if (request->kind == MR_READ_FILE)
        io_uring_prep_read(entry, number, request->buffer, (unsigned)mr_file_bytes(request), request->offset);
    else if (request->kind == MR_WRITE_FILE)
        io_uring_prep_write(entry, number, request->buffer, (unsigned)mr_file_bytes(request), request->offset);
    else
        io_uring_prep_fsync(entry, number, 0);
}

/*
 * The kernel retries a buffered read when its page has been read, on behalf of the thread that submitted it. If that
 * thread has ended, the result is -EFAULT, although the memory is valid (axboe/liburing#1595). A run-time system ends
 * threads at any time. If it happens repeatedly, a read or write by this thread tells whether the memory is really
 * invalid.
 */
int64_t mr_uring_result_on_file(mr_loop *loop, mr_slot *slot, int32_t answer, uint8_t *faults)
{
    enum { FAULTS_MAX = 3 };
    if (answer != -EFAULT || slot->end_reason)
        return answer;
    if (*faults == FAULTS_MAX)
        return mr_attempt(loop, slot);
    ++*faults;
    mr_count(&loop->counters.resubmissions, 1);
    return -EAGAIN;
}
