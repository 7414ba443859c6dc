/* calls.c: the calls, each with its ways of being called. They run on an OS thread and on a fiber alike. */
#include "differential.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Fortified calls, as a compiler makes them. */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __fprintf_chk(FILE *, int, const char *, ...);
int __dprintf_chk(int, int, const char *, ...);
int _IO_getc(FILE *);
int _IO_putc(int, FILE *);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
char *__fgets_chk(char *, size_t, int, FILE *);

/* The headers have fscanf mean the one of C99. */
int old_fscanf(FILE *, const char *, ...) __asm__("fscanf");

/* More than any of the buffers holds. */
static char large[400000];

enum { TIMEOUT_MS = 15, PATIENCE_MS = 200 };

/* ------------------------------------------------------------------------------------------------------ reading --- */

static void call_read(world *w, outcome *o)
{
    o->result = read(w->descriptor, o->data, DATA_BYTES);
}

static void call_read_little(world *w, outcome *o)
{
    o->result = read(w->descriptor, o->data, 8);
}

static void call_read_nothing(world *w, outcome *o)
{
    o->result = read(w->descriptor, o->data, 0);
}

static void call_read_bad_address(world *w, outcome *o)
{
    void *volatile nowhere = (void *)8; /* volatile: not for the compiler to see */
    o->result = read(w->descriptor, nowhere, 16);
}

static void call_read_chk(world *w, outcome *o)
{
    o->result = __read_chk(w->descriptor, o->data, DATA_BYTES, DATA_BYTES);
}

static void call_readv(world *w, outcome *o)
{
    struct iovec vector[] = {{o->data, 8}, {o->data + 8, 0}, {o->data + 8, DATA_BYTES - 8}};
    o->result = readv(w->descriptor, vector, 3);
}

static void call_readv_wrong_count(world *w, outcome *o)
{
    struct iovec vector = {o->data, 8};
    volatile int count = -1;
    o->result = readv(w->descriptor, &vector, count);
}

static void call_pread(world *w, outcome *o)
{
    o->result = pread(w->descriptor, o->data, 8, 5);
}

static void call_pread_negative(world *w, outcome *o)
{
    o->result = pread(w->descriptor, o->data, 8, -1);
}

static FILE *stream_of(world *w)
{
    return fdopen(dup(w->descriptor), "r");
}

/* What is taken from the descriptor is what is asked of the stream. */
static FILE *unbuffered_stream_of(world *w)
{
    FILE *stream = stream_of(w);
    if (stream)
        setvbuf(stream, NULL, _IONBF, 0);
    return stream;
}

static void end_stream(FILE *stream, outcome *o)
{
    int error = errno;
    o->detail[0] = feof(stream);
    o->detail[1] = ferror(stream);
    o->detail[2] = o->result < 0 && !feof(stream) ? error : 0;
    fclose(stream);
    errno = error;
}

static void call_fread(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = (long)fread(o->data, 4, 2, stream);
    end_stream(stream, o);
}

static void call_fgets(world *w, outcome *o)
{
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = fgets(o->data, 8, stream) ? (long)strlen(o->data) : -1;
    end_stream(stream, o);
}

static void call_fread_chk(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = (long)__fread_chk(o->data, DATA_BYTES, 4, 2, stream);
    end_stream(stream, o);
}

static void call_fgets_chk(world *w, outcome *o)
{
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = __fgets_chk(o->data, DATA_BYTES, 8, stream) ? (long)strlen(o->data) : -1;
    end_stream(stream, o);
}

/* A word of seven letters at most; what a descriptor for events gives is as long. And what is left behind it. */
static void scan_word(world *w, outcome *o, int (*scan)(FILE *, const char *, ...))
{
    int length = 0;
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = scan(stream, "%7s%n", o->data, &length);
    o->detail[3] = o->result == 1 ? length * 256 + fgetc(stream) : length;
    end_stream(stream, o);
}

static void call_fscanf(world *w, outcome *o)
{
    scan_word(w, o, fscanf);
}

static void call_old_fscanf(world *w, outcome *o)
{
    scan_word(w, o, old_fscanf);
}

/* The first byte is pushed back as another. */
static void call_ungetc(world *w, outcome *o)
{
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = fgetc(stream);
    if (o->result >= 0 && ungetc('X', stream) == 'X')
        o->detail[3] = (long)fread(o->data, 1, 4, stream);
    end_stream(stream, o);
}

static void call_fgetc(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = fgetc(stream);
    end_stream(stream, o);
}

static void call_getw(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = getw(stream);
    end_stream(stream, o);
}

static void call_preadv2_here(world *w, outcome *o)
{
    struct iovec vector[] = {{o->data, 8}, {o->data + 8, DATA_BYTES - 8}};
    o->result = preadv2(w->descriptor, vector, 2, -1, 0);
}

static void call_preadv2_nowait(world *w, outcome *o)
{
    struct iovec vector = {o->data, 8};
    o->result = preadv2(w->descriptor, &vector, 1, 0, RWF_NOWAIT);
}

/* What no kernel knows, what is for disks alone, what contradicts itself, and what means something to files alone. */
enum { FLAGS_UNKNOWN = 1 << 30, FLAGS_OF_DISKS = 0x80, FLAGS_CONTRADICTORY = 0x30, FLAGS_OF_FILES = RWF_SYNC };

static void read_with_flags(world *w, outcome *o, int flags)
{
    struct iovec vector = {o->data, 8};
    o->result = preadv2(w->descriptor, &vector, 1, -1, flags);
}

static void call_preadv2_unknown(world *w, outcome *o)
{
    read_with_flags(w, o, FLAGS_UNKNOWN);
}

static void call_preadv2_of_disks(world *w, outcome *o)
{
    read_with_flags(w, o, FLAGS_OF_DISKS);
}

static void call_preadv2_contradictory(world *w, outcome *o)
{
    read_with_flags(w, o, FLAGS_CONTRADICTORY);
}

static void call_preadv2_of_files(world *w, outcome *o)
{
    read_with_flags(w, o, FLAGS_OF_FILES);
}

static void call_preadv2_nowait_here(world *w, outcome *o)
{
    read_with_flags(w, o, RWF_NOWAIT);
}

static void call_preadv2_nowait_unknown(world *w, outcome *o)
{
    read_with_flags(w, o, RWF_NOWAIT | FLAGS_UNKNOWN);
}

static void call_eventfd_read(world *w, outcome *o)
{
    eventfd_t value = 0;
    o->result = eventfd_read(w->descriptor, &value);
    o->detail[0] = (long)value;
}

/* Up to a letter of the text; from an event descriptor, which is of no type, up to a byte of its number. */
static void call_getdelim(world *w, outcome *o)
{
    struct stat status = {0};
    fstat(w->descriptor, &status);
    int delimiter = status.st_mode & S_IFMT ? 'e' : 0;
    char *line = NULL;
    size_t size = 0;
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = getdelim(&line, &size, delimiter, stream);
    if (o->result > 0)
        strncpy(o->data, line, DATA_BYTES - 1);
    free(line);
    end_stream(stream, o);
}

static void call_recv(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, DATA_BYTES, 0);
}

static void call_recv_chk(world *w, outcome *o)
{
    o->result = __recv_chk(w->descriptor, o->data, DATA_BYTES, DATA_BYTES, 0);
}

static void call_recv_dontwait(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, DATA_BYTES, MSG_DONTWAIT);
}

static void call_recv_peek_twice(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, 4, MSG_PEEK);
    if (o->result > 0)
        o->detail[0] = recv(w->descriptor, o->data + 4, 8, MSG_PEEK);
    if (o->result > 0)
        o->detail[1] = recv(w->descriptor, o->data + 16, 8, 0);
}

/* What is there and what help brings. */
static void call_recv_waitall(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, 20, MSG_WAITALL);
}

static void call_recv_oob(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, 1, MSG_OOB);
}

static void call_recv_errqueue(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, 8, MSG_ERRQUEUE);
}

static void call_recvfrom(world *w, outcome *o)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    o->result = recvfrom(w->descriptor, o->data, 4, 0, (struct sockaddr *)&address, &size);
    o->detail[0] = size;
    o->detail[1] = address.ss_family;
}

static void call_recvmsg_truncated(world *w, outcome *o)
{
    struct iovec vector[] = {{o->data, 2}, {o->data + 2, 1}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    o->result = recvmsg(w->descriptor, &message, 0);
    if (o->result >= 0)
        o->detail[0] = message.msg_flags;
}

static void call_recvmsg_too_many_parts(world *w, outcome *o)
{
    struct iovec vector = {o->data, 4};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = SIZE_MAX};
    o->result = recvmsg(w->descriptor, &message, 0);
}

static void call_recvmmsg(world *w, outcome *o)
{
    struct iovec vectors[] = {{o->data, 8}, {o->data + 8, 24}};
    struct mmsghdr messages[] = {{.msg_hdr = {.msg_iov = &vectors[0], .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = &vectors[1], .msg_iovlen = 1}}};
    o->result = recvmmsg(w->descriptor, messages, 2, MSG_WAITFORONE, NULL);
    if (o->result > 0)
        o->detail[0] = messages[0].msg_len;
    if (o->result > 1)
        o->detail[1] = messages[1].msg_len;
}

/* ------------------------------------------------------------------------------------------------------ writing --- */

static void note_if_partial(outcome *o, size_t wanted)
{
    /* How much a buffer takes depends on the kernel's mood; that it took a part does not. */
    if (o->result > 0 && (size_t)o->result < wanted)
        o->result = 1;
}

static FILE *output_of(world *w, int buffering)
{
    FILE *stream = fdopen(dup(w->descriptor), "w");
    if (stream)
        setvbuf(stream, NULL, buffering, 1024);
    return stream;
}

static void call_fwrite_large(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOFBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = (long)fwrite(large, 1, sizeof large, stream);
    note_if_partial(o, sizeof large);
    end_stream(stream, o);
}

static void call_fputs(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOLBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = fputs("a line\nand", stream) == EOF ? -1 : 1;
    end_stream(stream, o);
}

static void call_fputc(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = fputc('x', stream);
    end_stream(stream, o);
}

static void call_putw(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = putw(1, stream);
    end_stream(stream, o);
}

static void call_pwritev2_here(world *w, outcome *o)
{
    struct iovec vector[] = {{"some", 4}, {"text", 4}};
    o->result = pwritev2(w->descriptor, vector, 2, -1, 0);
}

static void call_pwritev2_dsync(world *w, outcome *o)
{
    struct iovec vector = {"sometext", 8};
    o->result = pwritev2(w->descriptor, &vector, 1, 2, RWF_DSYNC);
}

static void write_with_flags(world *w, outcome *o, int flags)
{
    struct iovec vector = {"sometext", 8};
    o->result = pwritev2(w->descriptor, &vector, 1, -1, flags);
}

static void call_pwritev2_unknown(world *w, outcome *o)
{
    write_with_flags(w, o, FLAGS_UNKNOWN);
}

static void call_pwritev2_of_disks(world *w, outcome *o)
{
    write_with_flags(w, o, FLAGS_OF_DISKS);
}

static void call_pwritev2_contradictory(world *w, outcome *o)
{
    write_with_flags(w, o, FLAGS_CONTRADICTORY);
}

static void call_pwritev2_of_files(world *w, outcome *o)
{
    write_with_flags(w, o, FLAGS_OF_FILES);
}

static void call_pwritev2_nowait_here(world *w, outcome *o)
{
    write_with_flags(w, o, RWF_NOWAIT);
}

static void call_pwritev2_nowait_unknown(world *w, outcome *o)
{
    write_with_flags(w, o, RWF_NOWAIT | FLAGS_UNKNOWN);
}

static void call_eventfd_write(world *w, outcome *o)
{
    o->result = eventfd_write(w->descriptor, 1);
}

/* For which there must be nothing in it. */
static void call_eventfd_write_most(world *w, outcome *o)
{
    o->result = eventfd_write(w->descriptor, UINT64_MAX - 1);
}

static void call_fprintf(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    /* Less than 128 bytes: since glibc 2.37 libc writes longer texts in several pieces, a fiber always in one. */
    o->result = fprintf(stream, "%s: %*d\n", "wide", 100, 5);
    end_stream(stream, o);
}

static void call_fprintf_chk(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = __fprintf_chk(stream, 1, "%s: %d\n", "checked", 5);
    end_stream(stream, o);
}

static void call_fflush(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOFBF);
    o->result = -1;
    if (!stream)
        return;
    o->detail[3] = fputs("text", stream) == EOF;
    o->result = fflush(stream);
    end_stream(stream, o);
}

static void call_fflush_all(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOFBF);
    o->result = -1;
    if (!stream)
        return;
    o->detail[3] = fputs("text", stream) == EOF;
    o->result = fflush(NULL);
    end_stream(stream, o);
}

static void call_fclose(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOFBF);
    o->result = -1;
    if (!stream)
        return;
    o->detail[3] = fputs("text", stream) == EOF;
    o->result = fclose(stream);
}

/* Given a closed descriptor, glibc 2.36 leaks the buffer of dprintf (iovdprintf.c: it is allocated by the seek that
 * fails). That is not what LeakSanitizer, where there is one, looks for. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

static void expect_leak(bool expected)
{
    void (*tell)(void) = expected ? __lsan_disable : __lsan_enable;
    if (tell)
        tell();
}

static void call_dprintf(world *w, outcome *o)
{
    expect_leak(true);
    o->result = dprintf(w->descriptor, "%s: %d\n", "number", 5);
    expect_leak(false);
}

static void call_dprintf_chk(world *w, outcome *o)
{
    expect_leak(true);
    o->result = __dprintf_chk(w->descriptor, 1, "%s: %d\n", "number", 5);
    expect_leak(false);
}

static void call_write(world *w, outcome *o)
{
    o->result = write(w->descriptor, "12345678", 8);
}

static void call_write_bad_address(world *w, outcome *o)
{
    void *volatile nowhere = (void *)8;
    o->result = write(w->descriptor, nowhere, 8);
}

static void call_write_nothing(world *w, outcome *o)
{
    o->result = write(w->descriptor, "", 0);
}

static void call_write_large(world *w, outcome *o)
{
    o->result = write(w->descriptor, large, sizeof large);
    note_if_partial(o, sizeof large);
}

static void call_writev_large(world *w, outcome *o)
{
    struct iovec vector[12];
    for (int i = 0; i < 12; i++)
        vector[i] = (struct iovec){large + i * 30000, 30000};
    o->result = writev(w->descriptor, vector, 12);
    note_if_partial(o, 360000);
}

static void call_pwrite(world *w, outcome *o)
{
    o->result = pwrite(w->descriptor, "12345678", 8, 30);
    o->detail[0] = lseek(w->descriptor, 0, SEEK_END);
}

static void call_send(world *w, outcome *o)
{
    o->result = send(w->descriptor, "12345678", 8, 0);
}

static void call_send_large(world *w, outcome *o)
{
    o->result = send(w->descriptor, large, sizeof large, MSG_NOSIGNAL);
    note_if_partial(o, sizeof large);
}

static void call_send_dontwait_large(world *w, outcome *o)
{
    o->result = send(w->descriptor, large, sizeof large, MSG_DONTWAIT);
    note_if_partial(o, sizeof large);
}

static void call_sendto(world *w, outcome *o)
{
    o->result = sendto(w->descriptor, "12345678", 8, 0, (struct sockaddr *)&w->peer_address, w->peer_address_size);
}

static void call_sendmsg_large(world *w, outcome *o)
{
    struct iovec vector[] = {{large, 100000}, {large, 0}, {large, 200000}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 3};
    o->result = sendmsg(w->descriptor, &message, 0);
    o->detail[0] = vector[0].iov_len == 100000 && vector[2].iov_base == large; /* the caller's vector is not touched */
    note_if_partial(o, 300000);
}

static void call_sendmsg_too_many_parts(world *w, outcome *o)
{
    struct iovec vector = {large, 4};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = SIZE_MAX};
    o->result = sendmsg(w->descriptor, &message, 0);
}

static void call_sendmmsg(world *w, outcome *o)
{
    struct iovec vectors[] = {{"1234", 4}, {"567890", 6}};
    struct mmsghdr messages[] = {{.msg_hdr = {.msg_iov = &vectors[0], .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = &vectors[1], .msg_iovlen = 1}}};
    o->result = sendmmsg(w->descriptor, messages, 2, 0);
    if (o->result > 0)
        o->detail[0] = messages[0].msg_len;
}

/* --------------------------------------------------------------------------------------------------- connecting --- */

static void call_accept(world *w, outcome *o)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    int accepted = accept(w->descriptor, (struct sockaddr *)&address, &size);
    o->result = accepted < 0 ? -1 : 0;
    o->detail[0] = address.ss_family;
    if (accepted >= 0) {
        o->detail[1] = fcntl(accepted, F_GETFL);
        o->detail[2] = fcntl(accepted, F_GETFD);
        close(accepted);
    }
}

static void call_accept4(world *w, outcome *o)
{
    int accepted = accept4(w->descriptor, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    o->result = accepted < 0 ? -1 : 0;
    if (accepted >= 0) {
        o->detail[1] = fcntl(accepted, F_GETFL);
        o->detail[2] = fcntl(accepted, F_GETFD);
        close(accepted);
    }
}

static void call_accept4_invalid(world *w, outcome *o)
{
    o->result = accept4(w->descriptor, NULL, NULL, 0x1234);
}

static void call_connect(world *w, outcome *o)
{
    o->result = connect(w->descriptor, (struct sockaddr *)&w->peer_address, w->peer_address_size);
}

static void call_shutdown(world *w, outcome *o)
{
    o->result = shutdown(w->descriptor, SHUT_WR);
    o->detail[0] = send(w->descriptor, "x", 1, MSG_NOSIGNAL);
    o->detail[1] = errno;
}

/* ---------------------------------------------------------------------------------------------- several at once --- */

static void poll_for(world *w, outcome *o, short events, int timeout_ms)
{
    struct pollfd entry = {.fd = w->descriptor, .events = events, .revents = 0x7fff};
    o->result = poll(&entry, 1, timeout_ms);
    o->detail[0] = entry.revents;
}

static void call_poll_in_now(world *w, outcome *o)
{
    poll_for(w, o, POLLIN, 0);
}

static void call_poll_in_timeout(world *w, outcome *o)
{
    poll_for(w, o, POLLIN, TIMEOUT_MS);
}

static void call_poll_in(world *w, outcome *o)
{
    poll_for(w, o, POLLIN, w->mode == MODE_BLOCKING ? -1 : TIMEOUT_MS);
}

static void call_poll_out(world *w, outcome *o)
{
    poll_for(w, o, POLLOUT, w->mode == MODE_BLOCKING ? PATIENCE_MS : TIMEOUT_MS);
}

static void call_poll_in_out(world *w, outcome *o)
{
    poll_for(w, o, POLLIN | POLLOUT, TIMEOUT_MS);
}

static void call_poll_nothing(world *w, outcome *o)
{
    poll_for(w, o, 0, TIMEOUT_MS);
}

static void call_poll_pri(world *w, outcome *o)
{
    poll_for(w, o, POLLPRI, TIMEOUT_MS);
}

static void call_poll_rdhup(world *w, outcome *o)
{
    poll_for(w, o, POLLRDHUP, TIMEOUT_MS);
}

static void call_poll_chk(world *w, outcome *o)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    o->result = __poll_chk(&entry, 1, TIMEOUT_MS, sizeof entry);
    o->detail[0] = entry.revents;
}

static void call_poll_twice_in_set(world *w, outcome *o)
{
    struct pollfd entries[] = {{.fd = w->descriptor, .events = POLLIN},
                               {.fd = -1, .events = POLLIN},
                               {.fd = w->descriptor, .events = POLLOUT}};
    o->result = poll(entries, 3, TIMEOUT_MS);
    o->detail[0] = entries[0].revents;
    o->detail[1] = entries[1].revents;
    o->detail[2] = entries[2].revents;
}

static void call_poll_empty_set(world *w, outcome *o)
{
    (void)w;
    o->result = poll(NULL, 0, TIMEOUT_MS);
}

static void call_ppoll(world *w, outcome *o)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    struct timespec timeout = {.tv_nsec = TIMEOUT_MS * 1000000};
    o->result = ppoll(&entry, 1, &timeout, NULL);
    o->detail[0] = entry.revents;
    o->detail[1] = timeout.tv_nsec;
}

static void call_ppoll_chk(world *w, outcome *o)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    struct timespec timeout = {.tv_nsec = TIMEOUT_MS * 1000000};
    o->result = __ppoll_chk(&entry, 1, &timeout, NULL, sizeof entry);
    o->detail[0] = entry.revents;
    o->detail[1] = timeout.tv_nsec;
}

static void call_ppoll_invalid(world *w, outcome *o)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    struct timespec timeout = {.tv_nsec = 2000000000};
    o->result = ppoll(&entry, 1, &timeout, NULL);
}

static void select_for(world *w, outcome *o, struct timeval *timeout)
{
    fd_set in, out, except;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&except);
    FD_SET(w->descriptor, &in);
    FD_SET(w->descriptor, &except);
    o->result = select(w->descriptor + 1, &in, NULL, &except, timeout);
    if (o->result >= 0)
        o->detail[0] = (FD_ISSET(w->descriptor, &in) ? 1 : 0) + (FD_ISSET(w->descriptor, &except) ? 4 : 0);
}

static void call_select_now(world *w, outcome *o)
{
    struct timeval zero = {0};
    select_for(w, o, &zero);
}

static void call_select_timeout(world *w, outcome *o)
{
    struct timeval timeout = {.tv_usec = TIMEOUT_MS * 1000};
    select_for(w, o, &timeout);
    o->detail[1] = timeout.tv_sec == 0 && timeout.tv_usec <= TIMEOUT_MS * 1000;
    if (o->result == 0)
        o->detail[2] = timeout.tv_usec;
}

static void call_select(world *w, outcome *o)
{
    struct timeval timeout = {.tv_sec = 0, .tv_usec = TIMEOUT_MS * 1000};
    select_for(w, o, w->mode == MODE_BLOCKING ? NULL : &timeout);
}

static void call_pselect_out(world *w, outcome *o)
{
    struct timespec timeout = {.tv_nsec = (w->mode == MODE_BLOCKING ? PATIENCE_MS : TIMEOUT_MS) * 1000000};
    fd_set out;
    FD_ZERO(&out);
    FD_SET(w->descriptor, &out);
    o->result = pselect(w->descriptor + 1, NULL, &out, NULL, &timeout, NULL);
    if (o->result >= 0)
        o->detail[0] = FD_ISSET(w->descriptor, &out) != 0;
}

typedef int (*epoll_waiter)(int set, struct epoll_event *event);

static void wait_in_set(world *w, outcome *o, epoll_waiter wait_for)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7}, got = {0};
    int set = epoll_create1(0);
    o->detail[0] = epoll_ctl(set, EPOLL_CTL_ADD, w->descriptor, &event);
    o->result = wait_for(set, &got);
    o->error = errno;
    o->detail[1] = got.events;
    o->detail[2] = got.data.u32;
    close(set);
    errno = o->error;
}

static int wait_with_epoll_wait(int set, struct epoll_event *event)
{
    return epoll_wait(set, event, 1, TIMEOUT_MS);
}

static int wait_with_epoll_pwait(int set, struct epoll_event *event)
{
    return epoll_pwait(set, event, 1, TIMEOUT_MS, NULL);
}

static int wait_with_epoll_pwait2(int set, struct epoll_event *event)
{
    struct timespec timeout = {.tv_nsec = TIMEOUT_MS * 1000000};
    return epoll_pwait2(set, event, 1, &timeout, NULL);
}

static int wait_with_epoll_pwait2_invalid(int set, struct epoll_event *event)
{
    struct timespec timeout = {.tv_nsec = 2000000000};
    return epoll_pwait2(set, event, 1, &timeout, NULL);
}

static void call_epoll_wait(world *w, outcome *o)
{
    wait_in_set(w, o, wait_with_epoll_wait);
}

static void call_epoll_pwait(world *w, outcome *o)
{
    wait_in_set(w, o, wait_with_epoll_pwait);
}

static void call_epoll_pwait2(world *w, outcome *o)
{
    wait_in_set(w, o, wait_with_epoll_pwait2);
}

static void call_epoll_pwait2_invalid(world *w, outcome *o)
{
    wait_in_set(w, o, wait_with_epoll_pwait2_invalid);
}

/* ----------------------------------------------------------------------------------------------------- the rest --- */

static void call_close(world *w, outcome *o)
{
    o->result = close(w->descriptor);
    o->detail[0] = close(w->descriptor);
    o->detail[1] = errno;
}

static void call_close_range(world *w, outcome *o)
{
    unsigned number = (unsigned)w->descriptor;
    o->result = close_range(number, number, 0);
    o->detail[0] = fcntl(w->descriptor, F_GETFD);
    o->detail[1] = errno;
}

static void call_close_range_on_exec(world *w, outcome *o)
{
    unsigned number = (unsigned)w->descriptor;
    o->result = close_range(number, number, CLOSE_RANGE_CLOEXEC);
    o->detail[0] = fcntl(w->descriptor, F_GETFD);
}

static void call_close_range_backwards(world *w, outcome *o)
{
    unsigned number = (unsigned)w->descriptor;
    o->result = close_range(number, number - 1, 0);
    o->detail[0] = fcntl(w->descriptor, F_GETFD);
}

/* From a number on that nothing else in this program reaches. */
static void call_closefrom(world *w, outcome *o)
{
    enum { HIGH = 900 };
    o->result = dup2(w->descriptor, HIGH) == HIGH ? 0 : -1;
    o->error = errno;
    closefrom(HIGH);
    o->detail[0] = fcntl(HIGH, F_GETFD);
    o->detail[1] = fcntl(w->descriptor, F_GETFD);
    errno = o->error;
}

static void call_dup2(world *w, outcome *o)
{
    int target = dup(STDOUT_FILENO);
    o->result = dup2(w->descriptor, target) == target ? 0 : -1;
    o->error = errno;
    o->detail[0] = fcntl(target, F_GETFL);
    close(target);
    errno = o->error;
}

static void call_fionbio(world *w, outcome *o)
{
    int on = 1, off = 0;
    o->result = ioctl(w->descriptor, FIONBIO, &on);
    if (o->result == 0) {
        o->detail[0] = fcntl(w->descriptor, F_GETFL);
        o->detail[1] = read(w->descriptor, o->data, DATA_BYTES);
        o->detail[2] = o->detail[1] < 0 ? errno : 0;
        ioctl(w->descriptor, FIONBIO, &off);
    }
}

static void call_pread_chk(world *w, outcome *o)
{
    o->result = __pread_chk(w->descriptor, o->data, 8, 5, DATA_BYTES);
}

static void call_preadv(world *w, outcome *o)
{
    struct iovec vector[] = {{o->data, 4}, {o->data + 4, 4}};
    o->result = preadv(w->descriptor, vector, 2, 5);
}

static void call_pwritev(world *w, outcome *o)
{
    struct iovec vector[] = {{"1234", 4}, {"5678", 4}};
    o->result = pwritev(w->descriptor, vector, 2, 5);
}

static void call_recvfrom_chk(world *w, outcome *o)
{
    o->result = __recvfrom_chk(w->descriptor, o->data, DATA_BYTES, DATA_BYTES, 0, NULL, NULL);
}

static void call_old_getc(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = _IO_getc(stream);
    end_stream(stream, o);
}

static void call_old_putc(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = _IO_putc('x', stream);
    end_stream(stream, o);
}

static void call_dup3(world *w, outcome *o)
{
    int target = dup(STDOUT_FILENO);
    o->result = dup3(w->descriptor, target, O_CLOEXEC) == target ? 0 : -1;
    o->error = errno;
    o->detail[0] = fcntl(target, F_GETFD);
    close(target);
    errno = o->error;
}

static void call_fdatasync(world *w, outcome *o)
{
    o->result = fdatasync(w->descriptor);
}

static void call_syncfs(world *w, outcome *o)
{
    o->result = syncfs(w->descriptor);
}

static void call_sync_file_range(world *w, outcome *o)
{
    o->result = sync_file_range(w->descriptor, 0, 4096, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

static void call_msync(world *w, outcome *o)
{
    long page = sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, w->descriptor, 0);
    o->result = msync(memory == MAP_FAILED ? NULL : memory, (size_t)page, MS_SYNC);
    o->error = errno;
    if (memory != MAP_FAILED)
        munmap(memory, (size_t)page);
    errno = o->error;
}

static void call_lockf(world *w, outcome *o)
{
    o->result = lockf(w->descriptor, F_LOCK, 4);
}

static void call_fsync(world *w, outcome *o)
{
    o->result = fsync(w->descriptor);
}

static void call_flock(world *w, outcome *o)
{
    o->result = flock(w->descriptor, LOCK_EX);
    o->detail[0] = flock(w->descriptor, LOCK_UN);
}

static void call_lock_record(world *w, outcome *o)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 4};
    o->result = fcntl(w->descriptor, F_SETLKW, &lock);
}

static void call_openat(world *w, outcome *o)
{
    int opened = openat(w->descriptor, "tmp", O_RDONLY | O_DIRECTORY);
    o->result = opened < 0 ? -1 : 0;
    if (opened >= 0)
        close(opened);
}

const call calls[] = {
    {"read", NEED_READABLE, false, false, call_read},
    {"read_little", NEED_READABLE, false, false, call_read_little},
    {"read_nothing", NEED_NOTHING, false, false, call_read_nothing},
    {"read_bad_address", NEED_READABLE, false, false, call_read_bad_address},
    {"read_chk", NEED_READABLE, false, false, call_read_chk},
    {"readv", NEED_READABLE, false, false, call_readv},
    {"readv_wrong_count", NEED_NOTHING, false, false, call_readv_wrong_count},
    {"pread", NEED_NOTHING, false, false, call_pread},
    {"pread_negative", NEED_NOTHING, false, false, call_pread_negative},
    {"pread_chk", NEED_NOTHING, false, false, call_pread_chk},
    {"preadv", NEED_NOTHING, false, false, call_preadv},
    {"pwritev", NEED_NOTHING, false, false, call_pwritev},
    {"recvfrom_chk", NEED_READABLE, false, false, call_recvfrom_chk},
    {"old_getc", NEED_READABLE, false, false, call_old_getc},
    {"old_putc", NEED_WRITABLE, false, false, call_old_putc},
    {"recv", NEED_READABLE, false, false, call_recv},
    {"fread", NEED_READABLE, false, false, call_fread},
    {"fgets", NEED_READABLE, false, false, call_fgets},
    {"fread_chk", NEED_READABLE, false, false, call_fread_chk},
    {"fgets_chk", NEED_READABLE, false, false, call_fgets_chk},
    {"fscanf", NEED_READABLE, false, false, call_fscanf},
    {"old_fscanf", NEED_READABLE, false, false, call_old_fscanf},
    {"ungetc", NEED_READABLE, false, false, call_ungetc},
    {"fgetc", NEED_READABLE, false, false, call_fgetc},
    {"getw", NEED_READABLE, false, false, call_getw},
    {"preadv2_here", NEED_READABLE, false, false, call_preadv2_here},
    {"preadv2_nowait", NEED_NOTHING, false, false, call_preadv2_nowait},
    {"preadv2_unknown", NEED_READABLE, false, false, call_preadv2_unknown},
    {"preadv2_of_disks", NEED_READABLE, false, true, call_preadv2_of_disks},
    {"preadv2_contradictory", NEED_READABLE, false, false, call_preadv2_contradictory},
    {"preadv2_of_files", NEED_READABLE, false, false, call_preadv2_of_files},
    {"preadv2_nowait_here", NEED_NOTHING, false, false, call_preadv2_nowait_here},
    {"preadv2_nowait_unknown", NEED_NOTHING, false, false, call_preadv2_nowait_unknown},
    {"eventfd_read", NEED_READABLE, false, false, call_eventfd_read},
    {"getdelim", NEED_READABLE, false, false, call_getdelim},
    {"recv_chk", NEED_READABLE, false, false, call_recv_chk},
    {"recv_dontwait", NEED_NOTHING, false, false, call_recv_dontwait},
    {"recv_peek_twice", NEED_READABLE, false, false, call_recv_peek_twice},
    {"recv_waitall", NEED_READABLE, false, false, call_recv_waitall},
    {"recv_oob", NEED_READABLE, false, false, call_recv_oob},
    {"recv_errqueue", NEED_READABLE, false, false, call_recv_errqueue},
    {"recvfrom", NEED_READABLE, false, false, call_recvfrom},
    {"recvmsg_truncated", NEED_READABLE, false, false, call_recvmsg_truncated},
    {"recvmsg_too_many_parts", NEED_NOTHING, false, false, call_recvmsg_too_many_parts},
    {"recvmmsg", NEED_READABLE, false, false, call_recvmmsg},
    {"write", NEED_WRITABLE, false, false, call_write},
    {"write_bad_address", NEED_WRITABLE, false, false, call_write_bad_address},
    {"write_nothing", NEED_WRITABLE, false, false, call_write_nothing},
    {"write_large", NEED_WRITABLE, false, false, call_write_large},
    {"fwrite_large", NEED_WRITABLE, false, false, call_fwrite_large},
    {"fputs", NEED_WRITABLE, false, false, call_fputs},
    {"fputc", NEED_WRITABLE, false, false, call_fputc},
    {"putw", NEED_WRITABLE, false, false, call_putw},
    {"pwritev2_here", NEED_WRITABLE, false, false, call_pwritev2_here},
    {"pwritev2_dsync", NEED_NOTHING, false, true, call_pwritev2_dsync},
    {"pwritev2_unknown", NEED_WRITABLE, false, false, call_pwritev2_unknown},
    {"pwritev2_of_disks", NEED_WRITABLE, false, true, call_pwritev2_of_disks},
    {"pwritev2_contradictory", NEED_WRITABLE, false, false, call_pwritev2_contradictory},
    {"pwritev2_of_files", NEED_WRITABLE, false, true, call_pwritev2_of_files},
    {"pwritev2_nowait_here", NEED_NOTHING, false, true, call_pwritev2_nowait_here},
    {"pwritev2_nowait_unknown", NEED_NOTHING, false, false, call_pwritev2_nowait_unknown},
    {"eventfd_write", NEED_WRITABLE, false, false, call_eventfd_write},
    {"eventfd_write_most", NEED_WRITABLE, false, false, call_eventfd_write_most},
    {"fprintf", NEED_WRITABLE, false, false, call_fprintf},
    {"fprintf_chk", NEED_WRITABLE, false, false, call_fprintf_chk},
    {"fflush", NEED_WRITABLE, false, false, call_fflush},
    {"fflush_all", NEED_WRITABLE, false, false, call_fflush_all},
    {"fclose", NEED_WRITABLE, false, false, call_fclose},
    {"dprintf", NEED_WRITABLE, false, false, call_dprintf},
    {"dprintf_chk", NEED_WRITABLE, false, false, call_dprintf_chk},
    {"writev_large", NEED_WRITABLE, false, false, call_writev_large},
    {"pwrite", NEED_NOTHING, false, false, call_pwrite},
    {"send", NEED_WRITABLE, false, false, call_send},
    {"send_large", NEED_WRITABLE, false, false, call_send_large},
    {"send_dontwait_large", NEED_NOTHING, false, false, call_send_dontwait_large},
    {"sendto", NEED_WRITABLE, false, false, call_sendto},
    {"sendmsg_large", NEED_WRITABLE, false, false, call_sendmsg_large},
    {"sendmsg_too_many_parts", NEED_NOTHING, false, false, call_sendmsg_too_many_parts},
    {"sendmmsg", NEED_WRITABLE, false, false, call_sendmmsg},
    {"accept", NEED_READABLE, false, false, call_accept},
    {"accept4", NEED_READABLE, false, false, call_accept4},
    {"accept4_invalid", NEED_NOTHING, false, false, call_accept4_invalid},
    {"connect", NEED_NOTHING, true, false, call_connect},
    {"shutdown", NEED_NOTHING, true, false, call_shutdown},
    {"poll_in_now", NEED_NOTHING, false, false, call_poll_in_now},
    {"poll_in_timeout", NEED_NOTHING, false, false, call_poll_in_timeout},
    {"poll_in", NEED_READABLE, false, false, call_poll_in},
    {"poll_out", NEED_WRITABLE, false, false, call_poll_out},
    {"poll_in_out", NEED_NOTHING, false, false, call_poll_in_out},
    {"poll_nothing", NEED_NOTHING, false, false, call_poll_nothing},
    {"poll_pri", NEED_NOTHING, false, false, call_poll_pri},
    {"poll_rdhup", NEED_NOTHING, false, false, call_poll_rdhup},
    {"poll_chk", NEED_NOTHING, false, false, call_poll_chk},
    {"poll_twice_in_set", NEED_NOTHING, false, false, call_poll_twice_in_set},
    {"poll_empty_set", NEED_NOTHING, false, false, call_poll_empty_set},
    {"ppoll", NEED_NOTHING, false, false, call_ppoll},
    {"ppoll_chk", NEED_NOTHING, false, false, call_ppoll_chk},
    {"ppoll_invalid", NEED_NOTHING, false, false, call_ppoll_invalid},
    {"select_now", NEED_NOTHING, false, false, call_select_now},
    {"select_timeout", NEED_NOTHING, false, false, call_select_timeout},
    {"select", NEED_READABLE, false, false, call_select},
    {"pselect_out", NEED_WRITABLE, false, false, call_pselect_out},
    {"epoll_wait", NEED_NOTHING, false, false, call_epoll_wait},
    {"epoll_pwait", NEED_NOTHING, false, false, call_epoll_pwait},
    {"epoll_pwait2", NEED_NOTHING, false, false, call_epoll_pwait2},
    {"epoll_pwait2_invalid", NEED_NOTHING, false, false, call_epoll_pwait2_invalid},
    {"close", NEED_NOTHING, false, false, call_close},
    {"close_range", NEED_NOTHING, false, false, call_close_range},
    {"close_range_on_exec", NEED_NOTHING, false, false, call_close_range_on_exec},
    {"close_range_backwards", NEED_NOTHING, false, false, call_close_range_backwards},
    {"closefrom", NEED_NOTHING, false, false, call_closefrom},
    {"dup2", NEED_NOTHING, false, false, call_dup2},
    {"fionbio", NEED_NOTHING, false, false, call_fionbio},
    {"dup3", NEED_NOTHING, false, false, call_dup3},
    {"fdatasync", NEED_NOTHING, false, true, call_fdatasync},
    {"syncfs", NEED_NOTHING, false, true, call_syncfs},
    {"sync_file_range", NEED_NOTHING, false, true, call_sync_file_range},
    {"msync", NEED_NOTHING, false, true, call_msync},
    {"lockf", NEED_NOTHING, false, false, call_lockf},
    {"fsync", NEED_NOTHING, false, true, call_fsync},
    {"flock", NEED_NOTHING, false, false, call_flock},
    {"lock_record", NEED_NOTHING, false, false, call_lock_record},
    {"openat", NEED_NOTHING, false, true, call_openat},
};

const size_t call_count = sizeof calls / sizeof *calls;
