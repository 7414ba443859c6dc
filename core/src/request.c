/* request.c: what makes a request complete in itself, and what is left of one after a part was done. Knows no system. */
#include "loop.h"

#include <errno.h>

static bool is_send_then_receive(const mr_request *request)
{
    return request->buffer && !(request->flags & (MR_ALL | MR_NOW | MR_BORROW)) && request->length > 0 &&
           request->offset <= MR_BUFFER_BYTES && request->length <= MR_BUFFER_BYTES - request->offset;
}

/* Does every flag mean something to this kind of operation? */
static bool has_fitting_flags(const mr_request *request)
{
    mr_kind kind = request->kind;
    if (request->flags & ~(MR_ALL | MR_NOW | MR_BORROW | MR_WITHIN | MR_MORE | MR_TRIED))
        return false;
    if ((request->flags & MR_ALL) && kind != MR_SEND && kind != MR_SEND_VECTOR && kind != MR_WRITE_FILE)
        return false;
    if ((request->flags & MR_TRIED) && !mr_is_wait(kind))
        return false;
    return !(request->flags & MR_MORE) || kind == MR_SEND;
}

int mr_check_request(const mr_request *request)
{
    if ((unsigned)request->kind >= MR_KIND_COUNT || request->kind == MR_TIMEOUT || !has_fitting_flags(request))
        return -EINVAL;
    bool wants_lent = request->flags & MR_BORROW;
    if (wants_lent && (request->kind != MR_RECV || request->buffer || request->length == 0))
        return -EINVAL;
    /* To io_uring and to Windows some offsets beyond stand for others: the file's position, its end. */
    if ((mr_is_on_file(request->kind) || request->kind == MR_SEND_FILE) && request->offset > INT64_MAX)
        return -EINVAL;
    if (request->kind == MR_SEND_THEN_RECEIVE && !is_send_then_receive(request))
        return -EINVAL;
    bool is_foreign = mr_handle_generation(request->handle) == 0;
    switch (request->kind) {
    case MR_RECV:
    case MR_SEND:
    case MR_READ_FILE:
    case MR_WRITE_FILE:
        if (!request->buffer && request->length && !wants_lent)
            return -EINVAL;
        break;
    case MR_RECV_VECTOR:
    case MR_SEND_VECTOR:
        if (!request->buffer || request->length == 0 || request->length > MR_VECTOR_MAX)
            return -EINVAL;
        break;
    case MR_CONNECT:
        if (!request->buffer || request->length == 0 || request->length > sizeof(struct sockaddr_storage))
            return -EINVAL;
        break;
    case MR_WAIT_READABLE:
    case MR_WAIT_WRITABLE:
        is_foreign = false;
        break;
    default:
        break;
    }
    return is_foreign ? -EBADF : 0;
}

int64_t mr_when_shut(mr_kind kind)
{
    switch (kind) {
    case MR_RECV:
    case MR_RECV_VECTOR:
        return 0;
    case MR_ACCEPT:
        return -EINVAL;
    default:
        return -EAGAIN;
    }
}

int mr_is_error_of_file(int64_t result)
{
    switch (-result) {
    case EBADMSG: /* what is on the disk does not have its checksum */
    case EINVAL:
    case EIO:
    case EISDIR:
    case ENODEV:
    case ENXIO:
    case EOVERFLOW:
    case ESPIPE:
#ifdef ESTALE /* another computer's disk no longer knows the file */
    case ESTALE:
#endif
#ifdef EUCLEAN /* ... or not the structure of a file system */
    case EUCLEAN:
#endif
        return 1;
    default:
        return 0;
    }
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
