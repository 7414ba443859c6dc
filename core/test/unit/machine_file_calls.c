/* machine_file_calls.c: calls on files of a simulated machine, and their errors, which are those of Linux. */
#include "machine_calls.h"

static void files_have_a_position(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    char found[8] = {0};
    struct iovec element = {found, sizeof found};
    mr_machine_status status;
    (void)unused;
    int file = MUST(mr_machine_open(machine, "f", O_RDWR | O_CREAT)),
        end = MUST(mr_machine_open(machine, "f", O_WRONLY | O_APPEND));
    int reader = MUST(mr_machine_open(machine, "f", O_RDONLY));
    CHECK_EQ(send_text(machine, file, "abc"), 3);
    CHECK_EQ(send_text(machine, end, "de"), 2);
    CHECK_EQ(send_text(machine, file, "D"), 1); /* where it was */
    CHECK_EQ(mr_machine_seek(machine, file, 0, SEEK_SET), 0);
    CHECK_EQ(mr_machine_receive(machine, file, &element, 1, 0), 5);
    CHECK_MEMORY(found, "abcDe", 5);
    CHECK_EQ(mr_machine_receive(machine, file, &element, 1, 0), 0);
    CHECK_EQ(mr_machine_seek(machine, file, -2, SEEK_CUR), 3);
    CHECK_EQ(mr_machine_seek(machine, file, 2, SEEK_END), 7);
    CHECK_EQ(mr_machine_seek(machine, file, -1, SEEK_SET), -EINVAL);
    CHECK_EQ(send_text(machine, file, ""), 0);
    CHECK_EQ(mr_machine_size(machine, file), 5);
    CHECK_EQ(mr_machine_truncate(machine, file, 2), 0);
    CHECK_EQ(mr_machine_truncate(machine, file, 2), 0);
    CHECK_EQ(mr_machine_truncate(machine, file, 4), 0);
    CHECK_EQ(mr_machine_pread(machine, file, found, sizeof found, 0), 4);
    CHECK_MEMORY(found, "ab\0\0", 4); /* what was cut off does not come back */
    CHECK_EQ(mr_machine_truncate(machine, file, UINT64_MAX), -ENOSPC);
    CHECK_EQ(mr_machine_truncate(machine, reader, 1), -EINVAL);
    CHECK_EQ(mr_machine_pwrite(machine, file, "x", 1, INT64_MAX), -EFBIG);
    CHECK_EQ(mr_machine_pread(machine, file, found, 0, 0), 0);
    CHECK_EQ(mr_machine_pread(machine, file, found, 1, 4), 0);
    CHECK_EQ(mr_machine_fchmod(machine, file, 0100600), 0);
    CHECK_EQ(mr_machine_fstat(machine, file, &status), 0);
    CHECK_EQ(status.permissions, 0600);
    CHECK_EQ(status.size, 4);
    CHECK_EQ(status.names, 1);
    mr_machine_destroy(machine);
}

static void what_is_no_file(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    mr_machine_status status;
    char byte;
    int counter = MUST(mr_machine_eventfd(machine, 0, 0)), directory = MUST(mr_machine_open(machine, "/", O_RDONLY));
    (void)unused;
    CHECK_EQ(mr_machine_pread(machine, counter, &byte, 1, 0), -ESPIPE);
    CHECK_EQ(mr_machine_pwrite(machine, counter, &byte, 1, 0), -ESPIPE);
    CHECK_EQ(mr_machine_seek(machine, counter, 0, SEEK_SET), -ESPIPE);
    CHECK_EQ(mr_machine_size(machine, counter), -ESPIPE);
    CHECK_EQ(mr_machine_fsync(machine, counter), -EINVAL);
    CHECK_EQ(mr_machine_truncate(machine, counter, 0), -EINVAL);
    CHECK_EQ(mr_machine_fchmod(machine, counter, 0600), -EINVAL);
    CHECK_EQ(mr_machine_fstat(machine, counter, &status), -EBADF);
    CHECK_EQ(mr_machine_fstat(machine, 3, &status), -EBADF);
    CHECK_EQ(mr_machine_pread(machine, directory, &byte, 1, 0), -EISDIR);
    CHECK_EQ(mr_machine_pwrite(machine, directory, &byte, 1, 0), -EBADF);
    mr_machine_destroy(machine);
}

static void paths_that_lead_nowhere(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    char long_name[MR_MACHINE_NAME_BYTES + 10], name[MR_MACHINE_NAME_BYTES];
    mr_machine_status status;
    bool is_directory;
    (void)unused;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    closed(machine, MUST(mr_machine_open(machine, "f", O_RDWR | O_CREAT)));
    CHECK_EQ(mr_machine_mkdir(machine, "d", 0700), 0);
    CHECK_EQ(mr_machine_mkdir(machine, "d/e", 0700), 0);
    CHECK_EQ(mr_machine_mkdir(machine, "d2", 0700), 0);
    CHECK_EQ(mr_machine_open(machine, "", O_RDWR), -ENOENT);
    CHECK_EQ(mr_machine_open(machine, long_name, O_RDWR), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_open(machine, "f", O_RDONLY | O_DIRECTORY), -ENOTDIR);
    CHECK_EQ(mr_machine_open(machine, "d", O_RDONLY | O_TRUNC), -EISDIR);
    CHECK_EQ(mr_machine_stat(machine, "/..", &status), 0); /* the root is its own parent */
    CHECK(status.is_directory);
    CHECK_EQ(mr_machine_stat(machine, "gone", &status), -ENOENT);
    CHECK_EQ(mr_machine_list(machine, "gone", 0, name, &is_directory), -ENOENT);
    CHECK_EQ(mr_machine_list(machine, "f", 0, name, &is_directory), -ENOTDIR);
    CHECK_EQ(mr_machine_unlink(machine, "gone"), -ENOENT);
    CHECK_EQ(mr_machine_unlink(machine, "f/g"), -ENOTDIR);
    CHECK_EQ(mr_machine_rmdir(machine, "/"), -EBUSY);
    CHECK_EQ(mr_machine_rmdir(machine, "f"), -ENOTDIR);
    CHECK_EQ(mr_machine_mkdir(machine, long_name, 0700), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_rename(machine, "/", "x", 0), -EBUSY);
    CHECK_EQ(mr_machine_rename(machine, "f", "/", 0), -EBUSY);
    CHECK_EQ(mr_machine_rename(machine, long_name, "x", 0), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_rename(machine, "f", long_name, 0), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_rename(machine, "gone", "x", 0), -ENOENT);
    CHECK_EQ(mr_machine_rename(machine, "f", "gone", MR_MACHINE_EXCHANGE), -ENOENT);
    CHECK_EQ(mr_machine_rename(machine, "d", "f", 0), -ENOTDIR);
    CHECK_EQ(mr_machine_rename(machine, "d2", "d", 0), -ENOTEMPTY);
    CHECK_EQ(mr_machine_rename(machine, "d2", "d/e", 0), 0); /* replaces an empty one */
    CHECK_EQ(mr_machine_rename(machine, "f", "f", 0), 0);
    CHECK_EQ(mr_machine_link(machine, "gone", "x"), -ENOENT);
    CHECK_EQ(mr_machine_link(machine, "d", "x"), -EPERM);
    CHECK_EQ(mr_machine_link(machine, "f", "d"), -EEXIST);
    CHECK_EQ(mr_machine_link(machine, "f", long_name), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_chmod(machine, "gone", 0600), -ENOENT);
    CHECK_EQ(mr_machine_chmod(machine, "f", 0123), 0);
    CHECK_EQ(mr_machine_set_modified(machine, "gone", 5), -ENOENT);
    CHECK_EQ(mr_machine_set_modified(machine, "f", 5), 0);
    CHECK_EQ(mr_machine_stat(machine, "f", &status), 0);
    CHECK_EQ(status.permissions, 0123);
    CHECK_EQ(status.modified_ns, 5);
    mr_machine_destroy(machine);
}

/* The power fails at each call in turn: this call and all later ones fail until the power is back. */
static void calls_without_power(uintptr_t unused)
{
    enum { CALLS = 17 };
    (void)unused;
    for (uint64_t failing = 1; failing <= CALLS; failing++) {
        mr_machine *machine = new_machine(&(mr_machine_plan){.seed = failing, .traces = true});
        mr_machine_status status;
        char byte, name[MR_MACHINE_NAME_BYTES];
        bool is_directory;
        int file = MUST(mr_machine_open(machine, "f", O_RDWR | O_CREAT));
        closed(machine, MUST(mr_machine_open(machine, "h", O_RDWR | O_CREAT)));
        CHECK_EQ(mr_machine_mkdir(machine, "d", 0700), 0);
        CHECK(mr_machine_has_power(machine));
        mr_machine_fail_power_after(machine, failing);
        int results[CALLS] = {(int)mr_machine_pwrite(machine, file, "x", 1, 0),
                              (int)mr_machine_pread(machine, file, &byte, 1, 0),
                              mr_machine_fsync(machine, file),
                              mr_machine_truncate(machine, file, 7),
                              mr_machine_fchmod(machine, file, 0600),
                              mr_machine_chmod(machine, "f", 0600),
                              mr_machine_set_modified(machine, "f", 1),
                              mr_machine_stat(machine, "f", &status),
                              mr_machine_mkdir(machine, "e", 0700),
                              mr_machine_rmdir(machine, "d"),
                              mr_machine_link(machine, "f", "g"),
                              mr_machine_unlink(machine, "h"),
                              mr_machine_rename(machine, "g", "i", 0),
                              (int)send_text(machine, file, "x"),
                              (int)receive_byte(machine, file),
                              mr_machine_open(machine, "f", O_RDONLY),
                              mr_machine_open(machine, "new", O_RDWR | O_CREAT)};
        for (uint64_t i = 0; i < CALLS; i++)
            CHECK_EQ(results[i] == -EIO, i + 1 >= failing);
        CHECK(!mr_machine_has_power(machine));
        CHECK_EQ(mr_machine_list(machine, "/", 0, name, &is_directory), -EIO);
        mr_machine_crash(machine);
        CHECK(mr_machine_has_power(machine));
        CHECK_EQ(mr_machine_fsync(machine, file), -EIO); /* it was open */
        CHECK_EQ(mr_machine_pwrite(machine, file, "x", 1, 0), -EIO);
        CHECK_EQ(mr_machine_truncate(machine, file, 1), -EIO);
        CHECK_EQ(mr_machine_fchmod(machine, file, 1), -EIO);
        CHECK_EQ(mr_machine_fstat(machine, file, &status), -EIO);
        CHECK_EQ(mr_machine_size(machine, file), -EIO);
        CHECK_EQ(mr_machine_seek(machine, file, 0, SEEK_END), 0);
        CHECK_GE(mr_machine_list(machine, "/", 0, name, &is_directory), 0);
        mr_machine_destroy(machine);
    }
}

/* A size and permissions that were not synced are kept or lost, each independently. */
static void sizes_and_permissions_may_be_lost(uintptr_t unused)
{
    bool seen[2][2] = {{false}};
    (void)unused;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mr_machine *machine = new_machine(&(mr_machine_plan){.seed = seed});
        mr_machine_status status;
        int root = MUST(mr_machine_open(machine, "/", O_RDONLY)),
            file = MUST(mr_machine_open_with(machine, "f", O_RDWR | O_CREAT, 0644));
        int counter = MUST(mr_machine_eventfd(machine, 0, 0));
        CHECK_EQ(mr_machine_pwrite(machine, file, "0123456789", 10, 0), 10);
        CHECK_EQ(mr_machine_truncate(machine, file, 8), 0);
        CHECK_EQ(mr_machine_fsync(machine, file), 0);
        CHECK_EQ(mr_machine_fsync(machine, root), 0);
        CHECK_EQ(mr_machine_truncate(machine, file, 3), 0);
        CHECK_EQ(mr_machine_fchmod(machine, file, 0600), 0);
        closed(machine, root);
        mr_machine_crash(machine);
        closed(machine, counter);
        CHECK_EQ(mr_machine_stat(machine, "f", &status), 0);
        CHECK(status.size == 8 || status.size == 3);
        CHECK(status.permissions == 0644 || status.permissions == 0600);
        seen[status.size == 3][status.permissions == 0600] = true;
        mr_machine_destroy(machine);
    }
    CHECK(seen[0][0] && seen[0][1] && seen[1][0] && seen[1][1]);
}

/* Many changes reach the disk even if they are never synced. */
static void much_comes_to_the_disk_by_itself(uintptr_t unused)
{
    enum { PIECE = 1 << 20, PIECES = 8, NAMES = 1100 };
    static char piece[PIECE];
    mr_machine *machine = plain_machine();
    mr_machine_status status;
    char name[32];
    int file = MUST(mr_machine_open(machine, "f", O_RDWR | O_CREAT)), kept = 0;
    (void)unused;
    for (int i = 0; i < NAMES; i++) { /* more than a directory keeps unsynced */
        snprintf(name, sizeof name, "name%d", i);
        closed(machine, MUST(mr_machine_open(machine, name, O_RDWR | O_CREAT)));
    }
    for (uint64_t i = 0; i < PIECES; i++)
        CHECK_EQ(mr_machine_pwrite(machine, file, piece, PIECE, i * PIECE), PIECE);
    CHECK_EQ(mr_machine_unlink(machine, "name0"), 0);
    int root = MUST(mr_machine_open(machine, "/", O_RDONLY));
    CHECK_EQ(mr_machine_fsync(machine, root), 0); /* a name that is gone is gone on the disk, too */
    mr_machine_crash(machine);
    CHECK_EQ(mr_machine_stat(machine, "f", &status), 0);
    CHECK_GE(status.size, 4 * PIECE);
    CHECK_EQ(mr_machine_stat(machine, "name0", &status), -ENOENT);
    for (int i = 1; i < NAMES; i++) {
        snprintf(name, sizeof name, "name%d", i);
        kept += mr_machine_stat(machine, name, &status) == 0;
    }
    CHECK_EQ(kept, NAMES - 1);
    mr_machine_destroy(machine);
}

static void calls_on_files_meet_faults(uintptr_t unused)
{
    mr_planned_fault planned[] = {{1, MR_FAULT_DELAY}, {2, MR_FAULT_DISK_FULL}, {3, MR_FAULT_IO_ERROR}};
    mr_machine *machine = new_machine(&(mr_machine_plan){.planned = planned, .planned_count = 3});
    uint64_t delay_ns = 0;
    (void)unused;
    CHECK_EQ(mr_machine_file_call(machine, &delay_ns), 0);
    CHECK_GT(delay_ns, 0);
    CHECK_EQ(mr_machine_file_call(machine, &delay_ns), -ENOSPC);
    CHECK_EQ(delay_ns, 0);
    CHECK_EQ(mr_machine_file_call(machine, &delay_ns), -EIO);
    CHECK_EQ(mr_machine_file_call(machine, &delay_ns), 0);
    mr_machine_destroy(machine);
}

const harness_test machine_file_calls_tests[] = {
    UNIT(machine_file_calls, files_have_a_position),
    UNIT(machine_file_calls, what_is_no_file),
    UNIT(machine_file_calls, paths_that_lead_nowhere),
    UNIT(machine_file_calls, calls_without_power),
    UNIT(machine_file_calls, sizes_and_permissions_may_be_lost),
    UNIT(machine_file_calls, much_comes_to_the_disk_by_itself),
    UNIT(machine_file_calls, calls_on_files_meet_faults),
    {0},
};
