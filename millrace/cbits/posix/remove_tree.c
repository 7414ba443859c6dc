/* remove_tree.c: removes trees, many names for one job (work.h). */
#include "work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#ifdef __linux__
enum {
    REMOVALS = 512, /* of one job: then others have their turn */
    LEVELS = 32,    /* open directories */
    BUFFER_BYTES = 8192
};

/* A directory whose entries are being removed. */
typedef struct level {
    int descriptor;
    size_t path_bytes; /* of this directory */
    bool has_removed;  /* something was removed since it was opened */
    size_t used, filled;
    _Alignas(8) char records[BUFFER_BYTES];
} level;

typedef struct removal {
    mrh_job *job;
    int above; /* the directory of the first level, or AT_FDCWD; names are relative to it */
    level *levels[LEVELS];
    int depth;
    char *path; /* of the entry that is being removed */
    size_t name_at, capacity;
    int left;
    bool is_whole; /* the first level is the tree's root */
} removal;

static level *top(removal *r)
{
    return r->levels[r->depth - 1];
}

/* Makes `path` that of a name in the last directory. */
static int set_path(removal *r, const char *name)
{
    size_t before = r->depth ? top(r)->path_bytes : 0, bytes = strlen(name);
    if (before + bytes + 2 > r->capacity) {
        char *grown = realloc(r->path, 2 * (before + bytes + 2));
        if (!grown)
            return -ENOMEM;
        r->path = grown;
        r->capacity = 2 * (before + bytes + 2);
    }
    if (before && r->path[before - 1] != '/')
        r->path[before++] = '/';
    memcpy(r->path + before, name, bytes + 1);
    r->name_at = before;
    return 0;
}

static void close_levels(removal *r)
{
    while (r->depth > 0)
        close(r->levels[--r->depth]->descriptor);
    if (r->above != AT_FDCWD)
        close(r->above);
    r->above = AT_FDCWD;
}

static int directory_of_name(const removal *r)
{
    return r->depth ? r->levels[r->depth - 1]->descriptor : r->above;
}

/* Enters the directory at `path`. Beyond LEVELS, those above are closed: after this one they are opened again. */
static int enter(removal *r)
{
    int parent = directory_of_name(r);
    int descriptor = openat(parent, r->path + r->name_at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0)
        return -errno;
    if (r->depth == LEVELS) {
        int kept = fcntl(parent, F_DUPFD_CLOEXEC, 0);
        if (kept < 0) {
            int error = -errno;
            close(descriptor);
            return error;
        }
        close_levels(r);
        r->above = kept;
        r->is_whole = false;
    }
    if (!r->levels[r->depth] && !(r->levels[r->depth] = malloc(sizeof(level)))) {
        close(descriptor);
        return -ENOMEM;
    }
    level *entered = r->levels[r->depth++];
    entered->descriptor = descriptor;
    entered->path_bytes = strlen(r->path);
    entered->has_removed = false;
    entered->used = entered->filled = 0;
    return 0;
}

/* The next entry of the last directory, or NULL at its end or after an error. */
static const struct dirent64 *next_entry(removal *r, int *error)
{
    level *here = top(r);
    if (here->used == here->filled) {
        long count = syscall(SYS_getdents64, here->descriptor, here->records, sizeof here->records);
        if (count <= 0) {
            *error = count < 0 && errno != ENOENT ? -errno : 0;
            return NULL;
        }
        here->used = 0;
        here->filled = (size_t)count;
    }
    const struct dirent64 *entry = (const struct dirent64 *)(here->records + here->used);
    here->used += entry->d_reclen;
    return entry;
}

static void note_removal(removal *r)
{
    r->left--;
    if (r->depth)
        top(r)->has_removed = true;
}

/* Removes the entry at `path`, or enters it if it is a directory. What others have removed is no error. */
static int remove_or_enter(removal *r, bool is_directory)
{
    if (!is_directory) {
        if (unlinkat(directory_of_name(r), r->path + r->name_at, 0) == 0 || errno == ENOENT) {
            note_removal(r);
            return 0;
        }
        if (errno != EISDIR)
            return -errno;
    }
    int error = enter(r);
    if (error != -ENOTDIR && error != -ELOOP)
        return error == -ENOENT && r->depth ? 0 : error;
    if (unlinkat(directory_of_name(r), r->path + r->name_at, 0) < 0 && errno != ENOENT)
        return -errno;
    note_removal(r);
    return 0;
}

/* Leaves the last directory, all of whose entries have been removed, and removes it. If names have come meanwhile, it
 * begins again, but only after it has removed something. */
static int leave(removal *r)
{
    level *left = top(r);
    bool begins_again = left->has_removed;
    r->path[left->path_bytes] = 0;
    close(left->descriptor);
    r->depth--;
    size_t above = r->depth ? top(r)->path_bytes : 0;
    r->name_at = r->depth || r->above != AT_FDCWD ? (size_t)(strrchr(r->path, '/') + 1 - r->path) : above;
    if (unlinkat(directory_of_name(r), r->path + r->name_at, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        note_removal(r);
        return 0;
    }
    return (errno == ENOTEMPTY || errno == EEXIST) && begins_again ? enter(r) : -errno;
}

static int step(removal *r)
{
    int error = 0;
    const struct dirent64 *entry = next_entry(r, &error);
    if (!entry && error) {
        r->path[top(r)->path_bytes] = 0;
        return error;
    }
    if (!entry)
        return leave(r);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return 0;
    error = set_path(r, entry->d_name);
    return error ? error : remove_or_enter(r, entry->d_type == DT_DIR);
}

int64_t mrh_do_remove_tree(mrh_job *job)
{
    removal r = {.job = job, .above = AT_FDCWD, .left = REMOVALS, .is_whole = true};
    int error = set_path(&r, job->texts[0]);
    if (!error)
        error = remove_or_enter(&r, true);
    if (error == -ENOENT && job->numbers[0])
        error = 0; /* an earlier job has removed a part, and others the rest */
    while (!error && r.depth > 0 && r.left > 0 && !mrh_job_is_abandoned(job))
        error = step(&r);
    int64_t result = r.depth > 0 || !r.is_whole ? MRH_MORE : MRH_ALL;
    close_levels(&r);
    for (int i = 0; i < LEVELS; i++)
        free(r.levels[i]);
    if (error)
        result = mrh_fail_at(job, error, r.path ? r.path : job->texts[0]);
    free(r.path);
    return result;
}
#else
int64_t mrh_do_remove_tree(mrh_job *job)
{
    (void)job;
    return -EOPNOTSUPP;
}
#endif
