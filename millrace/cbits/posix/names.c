/* names.c: see names.h. */
#include "names.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef struct record {
    int32_t flags, family, type, protocol, bytes, unused;
    struct sockaddr_storage address;
} record;

/* getaddrinfo's errors are negative on some systems and positive on others. Without a descriptor glibc often says that
 * there is no such name, because it could not read the files or ask the servers; errno tells. */
static int64_t failure(int error)
{
    if (errno == EMFILE || errno == ENFILE)
        return -errno;
    if (error == EAI_SYSTEM)
        return errno ? -errno : -EIO;
    if (error == EAI_MEMORY)
        return -ENOMEM;
    return -MRH_NAME_ERROR - abs(error);
}

static int64_t put_out(mrh_job *job, const struct addrinfo *first)
{
    const char *name = first && first->ai_canonname ? first->ai_canonname : "";
    size_t count = 0, i = 0;
    for (const struct addrinfo *each = first; each; each = each->ai_next)
        count++;
    job->output_bytes = count * sizeof(record) + strlen(name) + 1;
    record *records = job->output = calloc(1, job->output_bytes);
    if (!records)
        return -ENOMEM;
    for (const struct addrinfo *each = first; each; each = each->ai_next, i++) {
        records[i] = (record){.flags = each->ai_flags,
                              .family = each->ai_family,
                              .type = each->ai_socktype,
                              .protocol = each->ai_protocol,
                              .bytes = (int32_t)each->ai_addrlen};
        memcpy(&records[i].address, each->ai_addr, each->ai_addrlen);
    }
    memcpy(records + count, name, strlen(name) + 1);
    return (int64_t)count;
}

int64_t mrh_do_find_addresses(mrh_job *job)
{
    struct addrinfo hints = {.ai_flags = (int)job->numbers[0],
                             .ai_family = (int)job->numbers[1],
                             .ai_socktype = (int)job->numbers[2],
                             .ai_protocol = (int)job->numbers[3]};
    struct addrinfo *found = NULL;
    errno = 0;
    int error = getaddrinfo(job->texts[0] && *job->texts[0] ? job->texts[0] : NULL,
                            job->texts[1] && *job->texts[1] ? job->texts[1] : NULL, &hints, &found);
    if (error)
        return failure(error);
    int64_t count = put_out(job, found);
    freeaddrinfo(found);
    return count;
}

int64_t mrh_do_find_name(mrh_job *job)
{
    char host[NI_MAXHOST], service[NI_MAXSERV];
    errno = 0;
    int error = getnameinfo(job->memory, (socklen_t)job->numbers[0], host, sizeof host, service, sizeof service,
                            (int)job->numbers[1]);
    if (error)
        return failure(error);
    size_t first = strlen(host) + 1, second = strlen(service) + 1;
    char *both = job->output = malloc(first + second);
    if (!both)
        return -ENOMEM;
    memcpy(both, host, first);
    memcpy(both + first, service, second);
    job->output_bytes = first + second;
    return 0;
}
