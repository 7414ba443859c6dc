/* file.c: files, which must not block a carrier, named pipes and devices. */
#include "../../src/interpose/libc.h"
#include "interpose_test.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void make_path(char *path, const char *what)
{
    snprintf(path, 64, "/tmp/millrace-%s-%d", what, (int)getpid());
    unlink(path);
}

static void *write_and_read_back(void *argument)
{
    enum { SIZE = 300000 };
    const char *path = argument;
    char *written = malloc(SIZE), *got = malloc(SIZE + 10);
    for (int i = 0; i < SIZE; i++)
        written[i] = (char)(i * 7 + i / 256);
    int file = MUST(open(path, O_CREAT | O_EXCL | O_RDWR, 0640));
    CHECK_EQ(write(file, written, SIZE), SIZE);
    CHECK_EQ(fsync(file), 0);
    CHECK_EQ(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0); /* so that reading needs the disk */
    CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQ(read(file, got, SIZE + 10), SIZE);
    CHECK_MEMORY(got, written, SIZE);
    CHECK_EQ(read(file, got, 10), 0);
    CHECK_EQ(pread(file, got, 1000, SIZE - 500), 500);
    CHECK_MEMORY(got, written + SIZE - 500, 500);
    CHECK_EQ(pwrite(file, "abc", 3, 5), 3);
    CHECK_EQ(pread(file, got, 3, 5), 3);
    CHECK_MEMORY(got, "abc", 3);
    CHECK_EQ(close(file), 0);
    free(written);
    free(got);
    return NULL;
}

static void a_file_is_written_and_read_back(void)
{
    char path[64];
    struct stat status;
    make_path(path, "file");
    mode_t before = umask(022);
    on_fiber(write_and_read_back, path);
    umask(before);
    MUST(stat(path, &status));
    CHECK_EQ(status.st_mode & 0777, 0640);
    unlink(path);
}

static int refusal;

/* Replaces the kernel's call: a write that must not wait. */
static ssize_t refuse_to_write(int descriptor, const struct iovec *vector, int count, off64_t offset, int flags)
{
    (void)descriptor, (void)vector, (void)count, (void)offset, (void)flags;
    errno = refusal;
    return -1;
}

static void refuse_writes_that_must_not_wait(int error)
{
    refusal = error;
    atomic_store(&mf_libc_functions[MF_LIBC_pwritev64v2], (void *)refuse_to_write);
}

/* As f2fs does it. */
static void a_file_system_that_refuses_to_write_without_waiting(void)
{
    char path[64];
    make_path(path, "refused");
    refuse_writes_that_must_not_wait(EINVAL);
    on_fiber(write_and_read_back, path);
    unlink(path);
}

static void *write_two_halves(void *argument)
{
    struct iovec halves[] = {{"1234", 4}, {"5678", 4}};
    CHECK_EQ(writev(*(int *)argument, halves, 2), 8);
    return NULL;
}

/* As before Linux 6.5. In a pipe with packets, one write must stay one packet. */
static void a_pipe_that_refuses_to_be_written_without_waiting(void)
{
    int ends[2];
    char text[16];
    MUST(pipe2(ends, O_DIRECT));
    refuse_writes_that_must_not_wait(EOPNOTSUPP);
    on_fiber(write_two_halves, &ends[1]);
    CHECK_EQ(read(ends[0], text, sizeof text), 8);
    CHECK_MEMORY(text, "12345678", 8);
    MUST(close(ends[0]));
    MUST(close(ends[1]));
}

static void *open_missing(void *argument)
{
    errno = 77;
    CHECK_EQ(open("/nonexistent/file", O_RDONLY), -1);
    CHECK_EQ(errno, ENOENT);
    errno = 77;
    int null = open("/dev/null", O_RDONLY);
    CHECK_GE(null, 0);
    CHECK_EQ(errno, 77);
    close(null);
    return argument;
}

static void errno_of_work_elsewhere(void)
{
    on_fiber(open_missing, NULL);
}

static void *vfork_and_open(void *argument)
{
    int status;
    (void)argument;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t child = vfork();
#pragma GCC diagnostic pop
    if (child == 0) {
        int file = open("/", O_RDONLY | O_DIRECTORY), device = open("/dev/null", O_RDONLY);
        _exit(fcntl(file, F_GETFD) < 0 || fcntl(device, F_GETFD) < 0);
    }
    MUST(waitpid(child, &status, 0));
    CHECK_EQ(status, 0);
    return NULL;
}

/* Between vfork and exec, as a program does to redirect standard input. The child shares the memory but not the
 * descriptors: a helper thread would open the file for the parent. */
static void a_vforked_child_opens_its_own(void)
{
    on_fiber(open_missing, NULL); /* starts the helpers */
    int before = MUST(open("/", O_RDONLY | O_DIRECTORY));
    MUST(close(before));
    on_fiber(vfork_and_open, NULL);
    int after = MUST(open("/", O_RDONLY | O_DIRECTORY));
    CHECK_EQ(after, before);
    MUST(close(after));
}

static void *read_named_pipe(void *argument)
{
    char text[8] = {0};
    int reader = MUST(open(argument, O_RDONLY));
    CHECK_EQ(read(reader, text, sizeof text), 5);
    CHECK_EQ(strcmp(text, "hello"), 0);
    close(reader);
    return NULL;
}

static void *read_named_pipe_by_openat2(void *argument)
{
    char text[8] = {0};
    int reader = MUST(openat2(AT_FDCWD, argument, &(struct open_how){.flags = O_RDONLY}, sizeof(struct open_how)));
    CHECK_EQ(read(reader, text, sizeof text), 5);
    CHECK_EQ(strcmp(text, "hello"), 0);
    close(reader);
    return NULL;
}

static void *fail_to_openat2(void *argument)
{
    const struct open_how *nothing = (const struct open_how *)(uintptr_t)8; /* not NULL, which a header may forbid */
    CHECK_EQ(openat2(AT_FDCWD, "/nowhere", &(struct open_how){.flags = O_RDONLY}, sizeof(struct open_how)), -1);
    CHECK_EQ(errno, ENOENT);
    CHECK_EQ(openat2(AT_FDCWD, "/", nothing, sizeof(struct open_how)), -1);
    CHECK_EQ(errno, EFAULT);
    return argument;
}

static void *write_named_pipe_later(void *argument)
{
    usleep(PAUSE_MS * 1000);
    int writer = MUST(open(argument, O_WRONLY));
    CHECK_EQ(write(writer, "hello", 5), 5);
    close(writer);
    return NULL;
}

static void *read_named_pipe_as_stream(void *argument)
{
    char text[8] = {0};
    FILE *reader = fopen(argument, "r");
    CHECK(reader != NULL);
    CHECK(fgets(text, sizeof text, reader) == text);
    CHECK_EQ(strcmp(text, "hello"), 0);
    fclose(reader);
    return NULL;
}

static void *reopen_as_named_pipe(void *argument)
{
    char text[8] = {0};
    FILE *reader = fopen("/dev/null", "r");
    CHECK(reader != NULL);
    CHECK(freopen(argument, "r", reader) == reader);
    CHECK(fgets(text, sizeof text, reader) == text);
    CHECK_EQ(strcmp(text, "hello"), 0);
    fclose(reader);
    return NULL;
}

/* Opening a named pipe waits for the other end, here a fiber of the same carrier. */
static void must_read_named_pipe(void *(*by)(void *))
{
    char path[64];
    make_path(path, "fifo");
    MUST(mkfifo(path, 0600));
    mr_fiber *writer = spawn(write_named_pipe_later, path);
    must_leave_carrier_free(by, path);
    join(writer);
    unlink(path);
}

static void a_named_pipe_between_fibers(void)
{
    must_read_named_pipe(read_named_pipe);
}

static void a_named_pipe_by_openat2(void)
{
    if (openat2(AT_FDCWD, "/nowhere", &(struct open_how){0}, sizeof(struct open_how)) == -1 && errno == ENOSYS)
        SKIP("Linux has openat2 since 5.6");
    must_read_named_pipe(read_named_pipe_by_openat2);
    on_fiber(fail_to_openat2, NULL);
    fail_to_openat2(NULL);
}

static void streams_of_named_pipes(void)
{
    must_read_named_pipe(read_named_pipe_as_stream);
    must_read_named_pipe(reopen_as_named_pipe);
}

enum { WAITERS = 8 };

static void *lock_file(void *argument)
{
    int file = MUST(open(argument, O_RDWR));
    CHECK_EQ(flock(file, LOCK_EX), 0);
    usleep(5000);
    CHECK_EQ(flock(file, LOCK_UN), 0);
    close(file);
    return NULL;
}

/* More fibers wait for the lock than there are helper threads; its owner needs one to go on. */
static void many_wait_for_a_file_lock(void)
{
    char path[64];
    mr_fiber *fibers[WAITERS];
    make_path(path, "flock");
    int file = MUST(open(path, O_CREAT | O_RDWR, 0600));
    MUST(flock(file, LOCK_EX));
    for (int i = 0; i < WAITERS; i++)
        fibers[i] = spawn(lock_file, path);
    CHECK_EQ(mr_fiber_sleep(30 * NS_PER_MS), 0);
    MUST(flock(file, LOCK_UN));
    for (int i = 0; i < WAITERS; i++)
        join(fibers[i]);
    close(file);
    unlink(path);
}

static bool kernel_knows_of_a_wait(int file)
{
    char line[256], inode[32];
    bool knows = false;
    struct stat status;
    MUST(fstat(file, &status));
    snprintf(inode, sizeof inode, ":%lu ", (unsigned long)status.st_ino);
    FILE *locks = fopen("/proc/locks", "r");
    CHECK(locks);
    while (fgets(line, sizeof line, locks))
        knows |= strstr(line, "->") && strstr(line, inode);
    CHECK_EQ(fclose(locks), 0);
    return knows;
}

static void *lock_by_flock(void *argument)
{
    CHECK_EQ(flock(*(int *)argument, LOCK_EX), 0);
    return NULL;
}

static void *lock_open_file(void *argument)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK_EQ(fcntl(*(int *)argument, F_OFD_SETLKW, &lock), 0);
    return NULL;
}

/* A thread that waits in the kernel gets the lock when it becomes free, before others that come later. */
static void the_kernel_knows_who_waits_for_a_lock(void)
{
    SKIP_UNDER_ASAN_FROM_GCC(15);
    static void *(*const ways[])(void *) = {lock_by_flock, lock_open_file};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char path[64];
        make_path(path, "wait");
        int held = MUST(open(path, O_CREAT | O_RDWR, 0600)), wanted = MUST(open(path, O_RDWR));
        MUST(unlink(path));
        ways[i](&held);
        mr_fiber *fiber = spawn(ways[i], &wanted);
        for (int looks = 0; looks < 2000 && !kernel_knows_of_a_wait(held); looks++)
            usleep(1000);
        CHECK(kernel_knows_of_a_wait(held));
        MUST(close(held));
        join(fiber);
        MUST(close(wanted));
    }
}

static void *wait_for_a_file_that_is_closed(void *argument)
{
    CHECK_EQ(flock(*(int *)argument, LOCK_EX), -1);
    CHECK_EQ(errno, EBADF);
    return NULL;
}

static void a_wait_for_a_lock_of_a_closed_file(void)
{
    char path[64];
    make_path(path, "closed");
    int held = MUST(open(path, O_CREAT | O_RDWR, 0600)), wanted = MUST(open(path, O_RDWR));
    MUST(unlink(path));
    lock_by_flock(&held);
    mr_fiber *fiber = spawn(wait_for_a_file_that_is_closed, &wanted);
    let_fibers_park();
    MUST(close(wanted));
    join(fiber);
    MUST(close(held));
}

static void *lock_record(void *argument)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK_EQ(fcntl(*(int *)argument, F_SETLKW, &lock), 0);
    return NULL;
}

static void a_record_lock_of_another_process(void)
{
    char path[64];
    int ready_pipe[2];
    char byte;
    make_path(path, "record");
    int file = MUST(open(path, O_CREAT | O_RDWR, 0600));
    MUST(pipe(ready_pipe));
    pid_t child = MUST(fork());
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        MUST(fcntl(file, F_SETLK, &lock));
        MUST(write(ready_pipe[1], "x", 1));
        usleep(PAUSE_MS * 1000);
        _exit(0);
    }
    MUST(read(ready_pipe[0], &byte, 1));
    must_leave_carrier_free(lock_record, &file);
    MUST(waitpid(child, NULL, 0));
    close(file);
    unlink(path);
}

static struct flock lock_of_byte(off_t byte)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

/* A child that holds the second byte of a file. It waits for the first, or for its end. */
static pid_t fork_holder(int file, bool wants_first)
{
    int ready_pipe[2];
    char byte;
    MUST(pipe(ready_pipe));
    pid_t child = MUST(fork());
    if (child == 0) {
        struct flock second = lock_of_byte(1), first = lock_of_byte(0);
        MUST(fcntl(file, F_SETLK, &second));
        MUST(write(ready_pipe[1], "x", 1));
        if (!wants_first)
            pause();
        _exit(fcntl(file, F_SETLKW, &first) < 0 ? errno : 0);
    }
    MUST(read(ready_pipe[0], &byte, 1));
    MUST(close(ready_pipe[0]));
    MUST(close(ready_pipe[1]));
    return child;
}

typedef struct record_waiter {
    int file;
    bool by_lockf;
    int error;
} record_waiter;

static void *wait_for_second_byte(void *argument)
{
    record_waiter *w = argument;
    struct flock second = lock_of_byte(1);
    errno = 0;
    MUST(lseek(w->file, 1, SEEK_SET));
    CHECK_EQ(w->by_lockf ? lockf(w->file, F_LOCK, 1) : fcntl(w->file, F_SETLKW, &second), w->error ? -1 : 0);
    CHECK_EQ(errno, w->error);
    return NULL;
}

static int new_locked_file(char *path)
{
    struct flock first = lock_of_byte(0);
    make_path(path, "record");
    int file = MUST(open(path, O_CREAT | O_RDWR, 0600));
    MUST(fcntl(file, F_SETLK, &first));
    return file;
}

/* The kernel detects the deadlock, and fails the later call. */
static void record_locks_in_a_circle(void)
{
    SKIP_UNDER_ASAN_FROM_GCC(15);
    for (int i = 0; i < 2; i++) {
        char path[64];
        int status;
        record_waiter w = {.file = new_locked_file(path), .by_lockf = i, .error = EDEADLK};
        pid_t child = fork_holder(w.file, true);
        usleep(100000);
        on_fiber(wait_for_second_byte, &w);
        close(w.file);
        MUST(waitpid(child, &status, 0));
        CHECK_EQ(status, 0);
        unlink(path);
    }
}

static void a_wait_for_a_record_lock_ends(void)
{
    for (int i = 0; i < 2; i++) {
        char path[64];
        record_waiter w = {.file = new_locked_file(path), .by_lockf = i, .error = i ? EBADF : EINTR};
        pid_t child = fork_holder(w.file, false);
        mr_fiber *fiber = spawn(wait_for_second_byte, &w);
        let_fibers_park();
        if (w.error == EBADF)
            MUST(close(w.file));
        else
            mr_fiber_interrupt(fiber, EINTR);
        join(fiber);
        MUST(kill(child, SIGKILL));
        MUST(waitpid(child, NULL, 0));
        if (w.error != EBADF) /* the interruption has left no lock behind, and no wait for one */
            on_fiber(lock_record, &w.file);
        if (w.error != EBADF)
            MUST(close(w.file));
        unlink(path);
    }
}

static void the_end_of_a_wait_needs_no_descriptor(void)
{
    char path[64];
    struct rlimit limit, none;
    record_waiter w = {.file = new_locked_file(path), .error = EINTR};
    pid_t child = fork_holder(w.file, false);
    mr_fiber *fiber = spawn(wait_for_second_byte, &w);
    let_fibers_park();
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    none = (struct rlimit){.rlim_max = limit.rlim_max};
    MUST(setrlimit(RLIMIT_NOFILE, &none));
    mr_fiber_interrupt(fiber, EINTR);
    join(fiber);
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
    MUST(close(w.file));
    unlink(path);
}

enum { LINES = 4000 };
static const char line[] = "what a terminal shows\n";

static void *write_lines(void *argument)
{
    for (int i = 0; i < LINES; i++)
        CHECK_EQ(write(*(int *)argument, line, sizeof line - 1), sizeof line - 1);
    return NULL;
}

static void *read_lines(void *argument)
{
    char buffer[4096];
    for (size_t left = LINES * sizeof line; left;) /* each "\n" comes as "\r\n" */
        left -= (size_t)MUST(read(*(int *)argument, buffer, sizeof buffer));
    return NULL;
}

/* At the end of a line, a terminal needs more space than poll promises. */
static void lines_written_to_a_terminal(void)
{
    int user, terminal;
    MUST(openpty(&user, &terminal, NULL, NULL, NULL));
    mr_fiber *writer = spawn(write_lines, &terminal);
    let_fibers_park();
    on_fiber(read_lines, &user);
    join(writer);
    close(user);
    close(terminal);
}

static void *write_record(void *argument)
{
    char record[400];
    memset(record, '.', sizeof record);
    memcpy(record, "<7>millrace: ", 13);
    CHECK_EQ(write(*(int *)argument, record, sizeof record), sizeof record);
    struct iovec halves[] = {{record, 200}, {record + 200, 200}};
    CHECK_EQ(writev(*(int *)argument, halves, 2), sizeof record);
    return NULL;
}

/* For some devices one write is one message. This device also never reports that it is writable. */
static void a_device_that_takes_messages(void)
{
    int device = open("/dev/kmsg", O_WRONLY);
    if (device < 0)
        SKIP("no /dev/kmsg for this user");
    on_fiber(write_record, &device);
    close(device);
}

static void *add_most(void *argument)
{
    CHECK_EQ(eventfd_write(*(int *)argument, UINT64_MAX - 1), 0);
    return NULL;
}

/* It reports that it is writable, for one byte. */
static void a_full_event_descriptor(void)
{
    eventfd_t value;
    int events = MUST(eventfd(5, 0));
    mr_fiber *writer = spawn(add_most, &events);
    let_fibers_park();
    CHECK_EQ(eventfd_read(events, &value), 0);
    CHECK_EQ(value, 5);
    join(writer);
    CHECK_EQ(eventfd_read(events, &value), 0);
    CHECK(value == UINT64_MAX - 1);
    close(events);
}

const fiber_case file_cases[] = {
    CASE(a_file_is_written_and_read_back),
    CASE(a_file_system_that_refuses_to_write_without_waiting),
    CASE(a_pipe_that_refuses_to_be_written_without_waiting),
    CASE(errno_of_work_elsewhere),
    CASE(a_vforked_child_opens_its_own),
    CASE(a_named_pipe_between_fibers),
    CASE(a_named_pipe_by_openat2),
    CASE(streams_of_named_pipes),
    CASE(many_wait_for_a_file_lock),
    CASE(the_kernel_knows_who_waits_for_a_lock),
    CASE(a_wait_for_a_lock_of_a_closed_file),
    CASE(a_record_lock_of_another_process),
    CASE(record_locks_in_a_circle),
    CASE(a_wait_for_a_record_lock_ends),
    CASE(the_end_of_a_wait_needs_no_descriptor),
    CASE(lines_written_to_a_terminal),
    CASE(a_device_that_takes_messages),
    CASE(a_full_event_descriptor),
    {0},
};
