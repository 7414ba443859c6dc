/* machine_files.c: files and directories of a simulated machine, their faults, and crashes. */
#include "machine_world.h"

/* A machine with an empty file, whose creation is the first operation. The second one has the fault. */
typedef struct stored {
    world w;
    mr_handle file;
} stored;

static stored new_stored(mr_fault fault, uint64_t disk_bytes)
{
    mr_planned_fault planned = {2, fault};
    stored s = {.w = new_world(
                    &(mr_machine_plan){.seed = 5, .planned = &planned, .planned_count = 1, .disk_bytes = disk_bytes})};
    s.file = adopt(&s.w, MUST(mr_machine_open(s.w.machine, "a file", O_RDWR | O_CREAT | O_EXCL)));
    return s;
}

static void free_stored(stored *s)
{
    close_handle(&s->w, s->file);
    CHECK_EQ(mr_machine_unlink(s->w.machine, "a file"), 0);
    free_world(&s->w);
}

static int64_t write_at(stored *s, const void *data, size_t size, uint64_t offset)
{
    return perform(&s->w, at(MR_WRITE_FILE, s->file, data, size, offset)).result;
}

static int64_t read_at(stored *s, void *buffer, size_t size, uint64_t offset)
{
    return perform(&s->w, at(MR_READ_FILE, s->file, buffer, size, offset)).result;
}

static int64_t sync_file(stored *s)
{
    return perform(&s->w, transfer(MR_SYNC_FILE, s->file, NULL, 0)).result;
}

/* Each case gets an empty file whose first operation has the fault listed with its name in FILE_CASES. */

static void a_short_write(stored *s)
{
    char text[100] = "a text", again[100];
    int64_t written = write_at(s, text, sizeof text, 0);
    CHECK_GT(written, 0);
    CHECK_LE(written, 8);
    CHECK_EQ(read_at(s, again, sizeof again, 0), written);
    CHECK_MEMORY(again, text, (size_t)written);
}

static void a_short_write_of_all(stored *s)
{
    char text[100] = "a text", again[100];
    mr_request all = at(MR_WRITE_FILE, s->file, text, sizeof text, 0);
    all.flags = MR_ALL;
    CHECK_EQ(perform(&s->w, all).result, sizeof text);
    CHECK_EQ(read_at(s, again, sizeof again, 0), sizeof again);
    CHECK_MEMORY(again, text, sizeof text);
}

static void a_delayed_write_is_overtaken(stored *s)
{
    char byte = 0;
    mr_token writing = start(&s->w, at(MR_WRITE_FILE, s->file, "x", 1, 0));
    CHECK_EQ(write_at(s, "yz", 2, 1), 2);
    CHECK_EQ(read_at(s, &byte, 1, 2), 1);
    CHECK_EQ(byte, 'z');
    CHECK_EQ(mr_machine_now_ns(s->w.machine), MR_MACHINE_START_NS);
    run_until(&s->w, 1);
    CHECK_EQ(s->w.last.token, writing);
    CHECK_EQ(s->w.last.result, 1);
    CHECK_GT(mr_machine_now_ns(s->w.machine), MR_MACHINE_START_NS);
}

static void an_interrupted_write(stored *s)
{
    mr_counters counters;
    CHECK_EQ(write_at(s, "x", 1, 0), 1);
    mr_loop_counters(s->w.loop, &counters);
    CHECK_EQ(counters.resubmissions, 1);
}

static void a_disk_that_is_full_once(stored *s)
{
    char byte;
    CHECK_EQ(write_at(s, "x", 1, 0), -ENOSPC);
    CHECK_EQ(read_at(s, &byte, 1, 0), 0); /* nothing was written */
    CHECK_EQ(write_at(s, "x", 1, 0), 1);
    CHECK_EQ(sync_file(s), 0);
}

static void a_disk_that_is_found_full_late(stored *s)
{
    CHECK_EQ(sync_file(s), -ENOSPC);
    CHECK_EQ(sync_file(s), 0);
}

#define FILE_CASES(X)                      \
    X(a_short_write, SHORT)                \
    X(a_short_write_of_all, SHORT)         \
    X(a_delayed_write_is_overtaken, DELAY) \
    X(an_interrupted_write, INTERRUPTED)   \
    X(a_disk_that_is_full_once, DISK_FULL) \
    X(a_disk_that_is_found_full_late, DISK_FULL)

#define FILE_UNIT(function, fault) {"machine_files/" #function, meet_fault_on_disk, CASE_##function},

enum { FILE_CASES(FAULT_NUMBER) };

static void meet_fault_on_disk(uintptr_t number)
{
    static const struct {
        mr_fault fault;
        void (*run)(stored *s);
    } cases[] = {FILE_CASES(FAULT_ENTRY)};
    stored s = new_stored(cases[number].fault, 0);
    cases[number].run(&s);
    free_stored(&s);
}

static void a_disk_has_a_size(uintptr_t unused)
{
    stored s = new_stored(MR_FAULT_NONE, 1000);
    static char data[2000];
    mr_machine_state state;
    (void)unused;
    CHECK_EQ(write_at(&s, data, 600, 0), 600);
    CHECK_EQ(write_at(&s, data, 600, 600), 400); /* as many bytes as the disk can hold */
    CHECK_EQ(write_at(&s, data, 600, 1000), -ENOSPC);
    CHECK_EQ(write_at(&s, data, 600, 5000), -ENOSPC);
    CHECK_EQ(write_at(&s, data, 600, 300), 600); /* existing bytes can be overwritten */
    mr_request all = at(MR_WRITE_FILE, s.file, data, 600, 900);
    all.flags = MR_ALL;
    mr_completion completion = perform(&s.w, all);
    CHECK_EQ(completion.result, -ENOSPC);
    CHECK_EQ(completion.transferred, 100);
    int other = MUST(mr_machine_open(s.w.machine, "a file", O_RDWR | O_TRUNC));
    CHECK_EQ(mr_machine_pwrite(s.w.machine, other, data, 2000, 0), 1000);
    CHECK_EQ(mr_machine_close(s.w.machine, other), 0);
    free_stored(&s);
    s = new_stored(MR_FAULT_NONE, 1000);
    mr_machine_inspect(s.w.machine, &state);
    CHECK_EQ(state.disk_bytes, 0);
    free_stored(&s);
}

static void files_have_names(uintptr_t unused)
{
    stored s = new_stored(MR_FAULT_NONE, 0);
    mr_machine *machine = s.w.machine;
    char byte;
    (void)unused;
    CHECK_EQ(write_at(&s, "x", 1, 0), 1);
    CHECK_EQ(mr_machine_open(machine, "a file", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
    CHECK_EQ(mr_machine_open(machine, "another", O_RDWR), -ENOENT);
    int reader = MUST(mr_machine_open(machine, "a file", O_RDONLY)),
        writer = MUST(mr_machine_open(machine, "b", O_WRONLY | O_CREAT));
    CHECK_EQ(mr_machine_pread(machine, reader, &byte, 1, 0), 1);
    CHECK_EQ(mr_machine_pwrite(machine, reader, &byte, 1, 0), -EBADF);
    CHECK_EQ(mr_machine_pread(machine, writer, &byte, 1, 0), -EBADF);
    CHECK_EQ(mr_machine_size(machine, reader), 1);
    CHECK_EQ(mr_machine_unlink(machine, "b"), 0);
    CHECK_EQ(mr_machine_pwrite(machine, writer, &byte, 1, 0), 1); /* it still exists without its name */
    CHECK_EQ(mr_machine_open(machine, "b", O_RDWR), -ENOENT);
    CHECK_EQ(mr_machine_close(machine, reader), 0);
    CHECK_EQ(mr_machine_close(machine, writer), 0);
    free_stored(&s);
}

static void directories_have_names(uintptr_t unused)
{
    world w = new_world(&(mr_machine_plan){.seed = 6});
    mr_machine *machine = w.machine;
    mr_machine_status status;
    char name[MR_MACHINE_NAME_BYTES];
    bool is_directory = false;
    (void)unused;
    CHECK_EQ(mr_machine_mkdir(machine, "a", 0700), 0);
    CHECK_EQ(mr_machine_mkdir(machine, "a", 0700), -EEXIST);
    CHECK_EQ(mr_machine_mkdir(machine, "b/c", 0700), -ENOENT);
    CHECK_EQ(mr_machine_mkdir(machine, "/a//./b", 0700), 0);
    int file = MUST(mr_machine_open_with(machine, "a/b/../f", O_RDWR | O_CREAT, 0640));
    CHECK_EQ(mr_machine_open(machine, "a", O_RDWR), -EISDIR);
    CHECK_EQ(mr_machine_open(machine, "a/f/x", O_RDWR | O_CREAT), -ENOTDIR);
    CHECK_EQ(mr_machine_unlink(machine, "a"), -EISDIR);
    CHECK_EQ(mr_machine_rmdir(machine, "a"), -ENOTEMPTY);
    CHECK_EQ(mr_machine_rename(machine, "a", "a/b/a", 0), -EINVAL);
    CHECK_EQ(mr_machine_rename(machine, "a/f", "a/b", 0), -EISDIR);
    CHECK_EQ(mr_machine_link(machine, "a/f", "g"), 0);
    CHECK_EQ(mr_machine_rename(machine, "g", "a/f", MR_MACHINE_NO_REPLACE), -EEXIST);
    CHECK_EQ(mr_machine_rename(machine, "g", "a/b", MR_MACHINE_EXCHANGE), 0);
    CHECK_EQ(mr_machine_stat(machine, "a/b", &status), 0);
    CHECK_EQ(status.names, 2);
    CHECK_EQ(status.permissions, 0640);
    CHECK_EQ(mr_machine_stat(machine, "g", &status), 0);
    CHECK(status.is_directory);
    CHECK_EQ(mr_machine_list(machine, "a", 0, name, &is_directory), 1);
    CHECK_EQ(mr_machine_list(machine, "a", 2, name, &is_directory), 0);
    CHECK_EQ(mr_machine_rmdir(machine, "g"), 0);
    CHECK_EQ(mr_machine_stat(machine, "g", &status), -ENOENT);
    CHECK_EQ(mr_machine_close(machine, file), 0);
    free_world(&w);
}

/* Creates files and directories, syncs some and renames them; then the power fails and returns. */
static void crash_once(uint64_t seed)
{
    world w = new_world(&(mr_machine_plan){.seed = seed});
    mr_machine *machine = w.machine;
    mr_machine_state state;
    char bytes[3000] = {1}, found[3000];
    CHECK_EQ(mr_machine_mkdir(machine, "d", 0700), 0);
    int root = MUST(mr_machine_open(machine, "/", O_RDONLY)), directory = MUST(mr_machine_open(machine, "d", O_RDONLY));
    int safe = MUST(mr_machine_open(machine, "d/safe", O_RDWR | O_CREAT));
    CHECK_EQ(mr_machine_pwrite(machine, safe, bytes, sizeof bytes, 0), sizeof bytes);
    CHECK_EQ(mr_machine_fsync(machine, safe), 0);
    CHECK_EQ(mr_machine_fsync(machine, directory), 0);
    CHECK_EQ(mr_machine_fsync(machine, root), 0);
    int other = MUST(mr_machine_open(machine, "d/other", O_RDWR | O_CREAT));
    CHECK_EQ(mr_machine_pwrite(machine, other, bytes, sizeof bytes, 100), sizeof bytes);
    CHECK_EQ(mr_machine_mkdir(machine, "d/e", 0700), 0);
    CHECK_EQ(mr_machine_rename(machine, "d/e", "f", 0), 0);
    CHECK_EQ(mr_machine_rename(machine, "d/other", "f/other", 0), 0);
    mr_machine_crash(machine);
    CHECK_EQ(mr_machine_pread(machine, safe, found, sizeof found, 0), -EIO);
    for (int number = root; number <= other; number++)
        CHECK_EQ(mr_machine_close(machine, number), 0);
    safe = MUST(mr_machine_open(machine, "d/safe", O_RDONLY));
    CHECK_EQ(mr_machine_pread(machine, safe, found, sizeof found, 0), sizeof found);
    CHECK_EQ(memcmp(found, bytes, sizeof bytes), 0);
    CHECK_EQ(mr_machine_close(machine, safe), 0);
    /* Whatever is left can be removed. */
    mr_machine_unlink(machine, "d/safe");
    mr_machine_unlink(machine, "d/other");
    mr_machine_unlink(machine, "f/other");
    mr_machine_unlink(machine, "d/e/other");
    mr_machine_rmdir(machine, "d/e");
    mr_machine_rmdir(machine, "f");
    CHECK_EQ(mr_machine_rmdir(machine, "d"), 0);
    mr_machine_inspect(machine, &state);
    CHECK_EQ(state.disk_bytes, 0);
    free_world(&w);
}

static void a_crash_leaves_what_was_synced(uintptr_t unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 300; seed++)
        crash_once(seed);
}

static void opening_meets_faults(uintptr_t unused)
{
    mr_planned_fault planned[] = {{1, MR_FAULT_NO_DESCRIPTORS}, {2, MR_FAULT_DISK_FULL}};
    world w = new_world(&(mr_machine_plan){.planned = planned, .planned_count = 2});
    (void)unused;
    CHECK_EQ(mr_machine_open(w.machine, "a file", O_RDWR | O_CREAT), -EMFILE);
    CHECK_EQ(mr_machine_open(w.machine, "a file", O_RDWR | O_CREAT), -ENOSPC);
    CHECK_EQ(mr_machine_open(w.machine, "a file", O_RDWR), -ENOENT);
    free_world(&w);
}

const harness_test machine_files_tests[] = {
    FILE_CASES(FILE_UNIT) UNIT(machine_files, a_disk_has_a_size),
    UNIT(machine_files, files_have_names),
    UNIT(machine_files, directories_have_names),
    UNIT(machine_files, a_crash_leaves_what_was_synced),
    UNIT(machine_files, opening_meets_faults),
    {0},
};
