/* simulated_files.c: see simulated_files.h. */
#include "simulated_files.h"

#include "ghc/scheduler.h"
#include "simulation.h"
#include "work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define NS_PER_S INT64_C(1000000000)

typedef int64_t simulated(mr_machine *machine, mrh_job *job);

static int descriptor_of(const mrh_job *job)
{
    return (int)job->numbers[0];
}

/* Appends a copy of these bytes to the output. */
static int64_t append_output(mrh_job *job, const void *bytes, size_t count)
{
    char *grown = realloc(job->output, job->output_bytes + count + 1);
    if (!grown)
        return -ENOMEM;
    memcpy(grown + job->output_bytes, bytes, count);
    job->output = grown;
    job->output_bytes += count;
    return 0;
}

static int64_t simulate_open(mr_machine *machine, mrh_job *job)
{
    return mr_machine_open_with(machine, job->texts[0], (int)job->numbers[0], (uint32_t)job->numbers[1]);
}

static int64_t simulate_open_temporary(mr_machine *machine, mrh_job *job)
{
    mr_machine_status directory;
    int error = mr_machine_stat(machine, job->texts[0], &directory);
    if (error)
        return error;
    return directory.is_directory ? mr_machine_file(machine) : -ENOTDIR;
}

/* Writes everything, as helpers do. */
static int64_t write_all(mr_machine *machine, int descriptor, const char *bytes, size_t count, uint64_t offset)
{
    size_t done = 0;
    while (done < count) {
        ssize_t part = mr_machine_pwrite(machine, descriptor, bytes + done, count - done, offset + done);
        if (part < 0)
            return part;
        done += (size_t)part;
    }
    return (int64_t)done;
}

static int64_t simulate_append(mr_machine *machine, mrh_job *job)
{
    struct iovec whole = {job->memory, (size_t)job->numbers[1]};
    while (whole.iov_len > 0) {
        ssize_t part = mr_machine_send(machine, descriptor_of(job), &whole, 1, 0);
        if (part < 0)
            return part;
        whole.iov_base = (char *)whole.iov_base + part;
        whole.iov_len -= (size_t)part;
    }
    return job->numbers[1];
}

static int64_t simulate_read_vector(mr_machine *machine, mrh_job *job)
{
    const struct iovec *vector = job->memory;
    int64_t done = 0;
    for (int64_t i = 0; i < job->numbers[2]; i++) {
        ssize_t part = mr_machine_pread(machine, descriptor_of(job), vector[i].iov_base, vector[i].iov_len,
                                        (uint64_t)(job->numbers[1] + done));
        if (part < 0)
            return done ? done : part;
        done += part;
        if ((size_t)part < vector[i].iov_len)
            break;
    }
    return done;
}

static int64_t simulate_write_vector(mr_machine *machine, mrh_job *job)
{
    const struct iovec *vector = job->memory;
    int64_t done = 0;
    for (int64_t i = 0; i < job->numbers[2]; i++) {
        int64_t part = write_all(machine, descriptor_of(job), vector[i].iov_base, vector[i].iov_len,
                                 (uint64_t)(job->numbers[1] + done));
        if (part < 0)
            return part;
        done += part;
    }
    return done;
}

static int64_t simulate_sync(mr_machine *machine, mrh_job *job)
{
    return mr_machine_fsync(machine, descriptor_of(job));
}

static int64_t simulate_resize(mr_machine *machine, mrh_job *job)
{
    return mr_machine_truncate(machine, descriptor_of(job), (uint64_t)job->numbers[1]);
}

/* The simulated machine has no holes to fill: this only extends the file. */
static int64_t simulate_allocate(mr_machine *machine, mrh_job *job)
{
    int64_t size = mr_machine_size(machine, descriptor_of(job)), end = job->numbers[2] + job->numbers[3];
    if (job->numbers[1] != 0)
        return -EOPNOTSUPP;
    if (size < 0 || size >= end)
        return size < 0 ? size : 0;
    return mr_machine_truncate(machine, descriptor_of(job), (uint64_t)end);
}

static mrh_status status_from(const mr_machine_status *status)
{
    int64_t seconds = (int64_t)status->modified_ns / NS_PER_S, rest_ns = (int64_t)status->modified_ns % NS_PER_S;
    return (mrh_status){
        .device = 1,
        .inode = (int64_t)status->number,
        .mode = (int64_t)status->permissions | (status->is_directory ? S_IFDIR : S_IFREG),
        .links = status->names,
        .size = (int64_t)status->size,
        .blocks_512 = (int64_t)(status->size + 511) / 512,
        .block_bytes = 512,
        .accessed_s = seconds,
        .accessed_ns = rest_ns,
        .modified_s = seconds,
        .modified_ns = rest_ns,
        .changed_s = seconds,
        .changed_ns = rest_ns,
    };
}

static int64_t put_status(mrh_job *job, const mr_machine_status *status)
{
    mrh_status out = status_from(status);
    return append_output(job, &out, sizeof out);
}

static int64_t simulate_status(mr_machine *machine, mrh_job *job)
{
    mr_machine_status status;
    int error = mr_machine_stat(machine, job->texts[0], &status);
    return error ? error : put_status(job, &status);
}

static int64_t simulate_status_of(mr_machine *machine, mrh_job *job)
{
    mr_machine_status status;
    int error = mr_machine_fstat(machine, descriptor_of(job), &status);
    return error ? error : put_status(job, &status);
}

static int64_t simulate_exists(mr_machine *machine, mrh_job *job)
{
    mr_machine_status status;
    return mr_machine_stat(machine, job->texts[0], &status);
}

static int64_t simulate_rename(mr_machine *machine, mrh_job *job)
{
    return mr_machine_rename(machine, job->texts[0], job->texts[1], (unsigned)job->numbers[0]);
}

static int64_t simulate_unlink(mr_machine *machine, mrh_job *job)
{
    return job->numbers[0] ? mr_machine_rmdir(machine, job->texts[0]) : mr_machine_unlink(machine, job->texts[0]);
}

/* Removes one name, so that each is a call that may be late or fail, or after which the power does. */
static int64_t simulate_remove_tree(mr_machine *machine, mrh_job *job)
{
    char path[PATH_MAX];
    size_t bytes = strlen(job->texts[0]);
    bool is_directory = true, is_root = true;
    int found = 0;
    if (bytes >= sizeof path)
        return -ENAMETOOLONG;
    memcpy(path, job->texts[0], bytes + 1);
    mr_machine_status status;
    int error = mr_machine_stat(machine, path, &status);
    if (error)
        return error == -ENOENT && job->numbers[0] ? MRH_ALL : error;
    is_directory = status.is_directory;
    while (is_directory) {
        char name[MR_MACHINE_NAME_BYTES];
        bool is_below_directory;
        found = mr_machine_list(machine, path, 0, name, &is_below_directory);
        if (found <= 0)
            break;
        if (bytes + strlen(name) + 2 > sizeof path)
            return -ENAMETOOLONG;
        path[bytes++] = '/';
        memcpy(path + bytes, name, strlen(name) + 1);
        bytes += strlen(name);
        is_directory = is_below_directory;
        is_root = false;
    }
    error = found < 0 ? found : is_directory ? mr_machine_rmdir(machine, path) : mr_machine_unlink(machine, path);
    return error ? mrh_fail_at(job, error, path) : is_root ? MRH_ALL : MRH_MORE;
}

static int64_t simulate_mkdir(mr_machine *machine, mrh_job *job)
{
    return mr_machine_mkdir(machine, job->texts[0], (uint32_t)job->numbers[0]);
}

static int64_t simulate_link(mr_machine *machine, mrh_job *job)
{
    return mr_machine_link(machine, job->texts[0], job->texts[1]);
}

static int64_t simulate_chmod(mr_machine *machine, mrh_job *job)
{
    return mr_machine_chmod(machine, job->texts[0], (uint32_t)job->numbers[0]);
}

static int64_t simulate_chmod_of(mr_machine *machine, mrh_job *job)
{
    return mr_machine_fchmod(machine, descriptor_of(job), (uint32_t)job->numbers[1]);
}

/* The machine has only the time of the last write. */
static int64_t simulate_set_times(mr_machine *machine, mrh_job *job)
{
    mr_machine_status status;
    if (job->numbers[3] == UTIME_OMIT)
        return mr_machine_stat(machine, job->texts[0], &status);
    return mr_machine_set_modified(machine, job->texts[0], (uint64_t)(job->numbers[2] * NS_PER_S + job->numbers[3]));
}

typedef struct directory_on_machine {
    mr_machine *machine;
    const char *path;
} directory_on_machine;

static void get_status_below(void *context, const char *name, mrh_status *status)
{
    const directory_on_machine *here = context;
    char path[PATH_MAX];
    mr_machine_status found;
    int bytes = snprintf(path, sizeof path, "%s/%s", here->path, name);
    if (bytes > 0 && (size_t)bytes < sizeof path && mr_machine_stat(here->machine, path, &found) == 0)
        *status = status_from(&found);
}

/* Returns all names in one batch. */
static int64_t simulate_list(mr_machine *machine, mrh_job *job)
{
    char name[MR_MACHINE_NAME_BYTES], record[sizeof(mrh_name_head) + MR_MACHINE_NAME_BYTES];
    bool is_directory;
    int found = 1;
    mrh_batch empty = {0};
    int64_t error = append_output(job, &empty, sizeof empty);
    for (size_t i = 0; !error && found > 0; i++) {
        found = mr_machine_list(machine, job->texts[0], i, name, &is_directory);
        if (found > 0)
            error = append_output(job, record, mrh_put_name(record, is_directory ? DT_DIR : DT_REG, name));
    }
    if (!error)
        ((mrh_batch *)job->output)->names_bytes = (int64_t)(job->output_bytes - sizeof empty);
    if (!error && job->numbers[1])
        error = mrh_add_statuses(job, get_status_below, &(directory_on_machine){machine, job->texts[0]});
    return error ? error : found < 0 ? found : MRH_LISTED_ALL;
}

static int64_t simulate_clone(mr_machine *machine, mrh_job *job)
{
    (void)machine, (void)job;
    return -EOPNOTSUPP;
}

/* Opens both files, and leaves the rest to later calls. */
static int64_t simulate_copy_file(mr_machine *machine, mrh_job *job)
{
    mr_machine_status status;
    int64_t from = mr_machine_open_with(machine, job->texts[0], O_RDONLY, 0);
    if (from < 0)
        return mrh_fail_at(job, from, job->texts[0]);
    int64_t error = mr_machine_fstat(machine, (int)from, &status);
    int64_t to = error ? error : mr_machine_open_with(machine, job->texts[1], O_RDWR | O_CREAT | O_EXCL, 0600);
    if (to < 0) {
        mr_machine_close(machine, (int)from);
        return mrh_fail_at(job, to, job->texts[error ? 0 : 1]);
    }
    mrh_copy copy = {.size = (int64_t)status.size, .permissions = status.permissions};
    error = mrh_job_set_output(job, &copy, sizeof copy);
    if (error) {
        mr_machine_close(machine, (int)from);
        mr_machine_close(machine, (int)to);
    }
    return error ? error : from << 32 | to;
}

static int64_t simulate_copy_range(mr_machine *machine, mrh_job *job)
{
    enum { BUFFER_BYTES = 64 * 1024 };
    char buffer[BUFFER_BYTES];
    size_t wanted = job->numbers[4] < BUFFER_BYTES ? (size_t)job->numbers[4] : BUFFER_BYTES;
    ssize_t count = mr_machine_pread(machine, descriptor_of(job), buffer, wanted, (uint64_t)job->numbers[1]);
    if (count <= 0)
        return count;
    return write_all(machine, (int)job->numbers[2], buffer, (size_t)count, (uint64_t)job->numbers[3]);
}

static simulated *simulation_of(mrh_work *work)
{
    static const struct {
        mrh_work *work;
        simulated *simulation;
    } table[] = {
        {mrh_do_open, simulate_open},
        {mrh_do_open_temporary, simulate_open_temporary},
        {mrh_do_append, simulate_append},
        {mrh_do_read_vector, simulate_read_vector},
        {mrh_do_write_vector, simulate_write_vector},
        {mrh_do_sync_data, simulate_sync},
        {mrh_do_resize, simulate_resize},
        {mrh_do_allocate, simulate_allocate},
        {mrh_do_status, simulate_status},
        {mrh_do_status_of, simulate_status_of},
        {mrh_do_exists, simulate_exists},
        {mrh_do_rename, simulate_rename},
        {mrh_do_unlink, simulate_unlink},
        {mrh_do_remove_tree, simulate_remove_tree},
        {mrh_do_mkdir, simulate_mkdir},
        {mrh_do_link, simulate_link},
        {mrh_do_chmod, simulate_chmod},
        {mrh_do_chmod_of, simulate_chmod_of},
        {mrh_do_set_times, simulate_set_times},
        {mrh_do_list, simulate_list},
        {mrh_do_clone, simulate_clone},
        {mrh_do_copy_file, simulate_copy_file},
        {mrh_do_copy_range, simulate_copy_range},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].work == work)
            return table[i].simulation;
    return NULL;
}

/* mr_machine_open_with already counts as an operation. */
int64_t mrh_job_simulate_begin(const mrh_job *job)
{
    mr_machine *machine = mrh_simulation_here();
    uint64_t delay_ns = 0;
    if (!machine || !simulation_of(job->work))
        return -ENOSYS;
    mrh_begin_nursery_block();
    if (job->work == mrh_do_open || job->work == mrh_do_copy_file)
        return 0;
    int error = mr_machine_file_call(machine, &delay_ns);
    return error ? error : (int64_t)delay_ns;
}

void mrh_job_simulate(mrh_job *job)
{
    mr_machine *machine = mrh_simulation_here();
    mrh_begin_nursery_block();
    job->result = machine ? simulation_of(job->work)(machine, job) : -ENOSYS;
    job->state = MRH_JOB_DONE;
}
