/* proc.c: reads a number from a file in /proc, which never waits. */
#include "proc.h"
#include "libc.h"

#include <string.h>

/* Enough for all lines that are read here. */
enum { TEXT_BYTES = 1024 };

static bool read_text(const char *path, char *text)
{
    int file = LIBC(open64)(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t size = LIBC(read)(file, text, TEXT_BYTES - 1);
    LIBC(close)(file);
    text[size > 0 ? size : 0] = 0;
    return true;
}

static const char *value_in(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0)
            return line + length;
    }
    return NULL;
}

bool mf_proc_number(const char *path, const char *name, int base, uint64_t *number)
{
    char text[TEXT_BYTES];
    const char *value = read_text(path, text) ? value_in(text, name) : NULL;
    if (value)
        *number = strtoull(value, NULL, base);
    return value;
}
