/* request.c: checks requests, and advances one after a partial transfer. Must not know: system calls. */
#include "request.h"
#include "loop.h"

#include <errno.h>

/* The rule for `buffer` and `length` of a request: a column of the table of operations. */
typedef enum buffer_rule { NOTHING, BYTES, VECTOR, ADDRESS, BORROWED } buffer_rule;

static const struct {
    uint8_t buffer; /* a buffer_rule */
    uint8_t flags;
} rules[MR_KIND_COUNT] = {
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) [MR_##NAME] = {BUFFER, FLAGS},
#include "operation.def"
};

static bool has_fitting_bytes(const mr_request *request)
{
    if (request->flags & MR_BORROW)
        return !request->buffer && request->length > 0;
    return request->buffer || request->length == 0;
}

static bool has_fitting_buffer(const mr_request *request)
{
    switch ((buffer_rule)rules[request->kind].buffer) {
    case BYTES:
        return has_fitting_bytes(request);
    case VECTOR:
        return request->buffer && request->length > 0 && request->length <= MR_VECTOR_MAX;
    case ADDRESS:
        return request->buffer && request->length > 0 && request->length <= sizeof(struct sockaddr_storage);
    case BORROWED:
        return request->buffer && request->length > 0 && request->offset <= MR_BUFFER_BYTES &&
               request->length <= MR_BUFFER_BYTES - request->offset;
    case NOTHING:
        break;
    }
    return true;
}

int mr_check_request(const mr_request *request)
{
    if ((unsigned)request->kind >= MR_KIND_COUNT || request->kind == MR_TIMEOUT)
        return -EINVAL;
    if ((request->flags & ~(uint32_t)rules[request->kind].flags) || !has_fitting_buffer(request))
        return -EINVAL;
    /* Larger offsets have special meanings to io_uring and Windows: the file's position, its end. */
    if (mr_has_trait(request->kind, MR_HAS_OFFSET) && request->offset > INT64_MAX)
        return -EINVAL;
    bool is_foreign = mr_handle_generation(request->handle) == 0;
    return is_foreign && !mr_is_wait(request->kind) ? -EBADF : 0;
}

int mr_is_error_of_file(int64_t result)
{
    switch (-result) {
    case EBADMSG: /* the data on the disk does not match its checksum */
    case EINVAL:
    case EIO:
    case EISDIR:
    case ENODEV:
    case ENXIO:
    case EOVERFLOW:
    case ESPIPE:
#ifdef ESTALE /* the file server no longer has the file */
    case ESTALE:
#endif
#ifdef EUCLEAN /* the file system's structure is damaged */
    case EUCLEAN:
#endif
        return 1;
    default:
        return 0;
    }
}

bool mr_wants_bytes(const mr_request *request)
{
    const struct iovec *elements = request->buffer;
    if (!mr_has_trait(request->kind, MR_HAS_VECTOR))
        return request->length > 0;
    uint64_t i = 0;
    while (i < request->length && elements[i].iov_len == 0)
        i++;
    return i < request->length;
}

static bool advance_vector(mr_request *request, uint64_t transferred)
{
    struct iovec *element = request->buffer;
    while (request->length && transferred >= element->iov_len) {
        transferred -= element->iov_len;
        element++;
        request->length--;
    }
    request->buffer = element;
    if (!request->length)
        return true;
    element->iov_base = (char *)element->iov_base + transferred;
    element->iov_len -= transferred;
    return false;
}

bool mr_advance(mr_request *request, uint64_t transferred)
{
    if (request->kind == MR_SEND_VECTOR)
        return advance_vector(request, transferred);
    request->buffer = (char *)request->buffer + transferred;
    request->length -= transferred;
    request->offset += transferred;
    return request->length == 0;
}
