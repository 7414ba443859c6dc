/*
 * libc.h: the names of libc that this library defines itself, and access to libc's own functions with these names.
 *
 * A definition in the program comes before libc's in the order of symbol resolution, for the program and for every
 * shared library that it loads. It does not affect calls within libc: for those, the outer function is interposed.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_LIBC_H
#define MILLRACE_FIBER_INTERPOSE_LIBC_H

/* stdio.h must declare fscanf and its relatives under their own names, not as __isoc99_fscanf. Therefore files that
 * define them include this header first. */
#include <features.h>
#undef __GLIBC_USE_DEPRECATED_SCANF
#define __GLIBC_USE_DEPRECATED_SCANF 1

#include <assert.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* Functions that compilers call in fortified code (_chk), and second names of libc's functions. No header declares
 * them. */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);

size_t __fread_unlocked_chk(void *restrict, size_t, size_t, size_t, FILE *restrict);
char *__fgets_unlocked_chk(char *restrict, size_t, int, FILE *restrict);
size_t __fread_chk(void *restrict, size_t, size_t, size_t, FILE *restrict);
char *__fgets_chk(char *restrict, size_t, int, FILE *restrict);
int __printf_chk(int, const char *restrict, ...);
int __fprintf_chk(FILE *restrict, int, const char *restrict, ...);
int __vprintf_chk(int, const char *restrict, va_list);
int __vfprintf_chk(FILE *restrict, int, const char *restrict, va_list);
int __dprintf_chk(int, int, const char *restrict, ...);
int __vdprintf_chk(int, int, const char *restrict, va_list);
int __vasprintf_chk(char **restrict, int, const char *restrict, va_list);

/* scanf of C99, where %a is a number and not an allocation, and of C23, where numbers may be binary. */
int __isoc99_scanf(const char *restrict, ...);
int __isoc99_fscanf(FILE *restrict, const char *restrict, ...);
int __isoc99_vscanf(const char *restrict, va_list);
int __isoc99_vfscanf(FILE *restrict, const char *restrict, va_list);
int __isoc23_scanf(const char *restrict, ...);
int __isoc23_fscanf(FILE *restrict, const char *restrict, ...);
int __isoc23_vscanf(const char *restrict, va_list);
int __isoc23_vfscanf(FILE *restrict, const char *restrict, va_list);
int __vfscanf(FILE *restrict, const char *restrict, va_list);

ssize_t __read(int, void *, size_t);
ssize_t __write(int, const void *, size_t);
ssize_t __pread64(int, void *, size_t, off64_t);
ssize_t __pwrite64(int, const void *, size_t, off64_t);
ssize_t __send(int, const void *, size_t, int);
int __connect(int, const struct sockaddr *, socklen_t);
int __poll(struct pollfd *, nfds_t, int);
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *);
int __close(int);
int __uflow(FILE *);
int __underflow(FILE *);
int __overflow(FILE *, int);
int _IO_getc(FILE *); /* getc and putc before glibc 2.28 */
int _IO_putc(int, FILE *);
int __dup2(int, int);
int __nanosleep(const struct timespec *, struct timespec *);
int __open(const char *, int, ...);
int __open64(const char *, int, ...);
struct open_how;
int openat2(int, const char *, const struct open_how *, size_t); /* declared by glibc since 2.43 */
int __fcntl(int, int, ...);
pid_t __wait(int *);
pid_t __waitpid(pid_t, int *, int);
int __pthread_mutex_lock(pthread_mutex_t *);
int __pthread_mutex_trylock(pthread_mutex_t *);
int __pthread_mutex_unlock(pthread_mutex_t *);
int __pthread_rwlock_rdlock(pthread_rwlock_t *);
int __pthread_rwlock_tryrdlock(pthread_rwlock_t *);
int __pthread_rwlock_wrlock(pthread_rwlock_t *);
int __pthread_rwlock_trywrlock(pthread_rwlock_t *);
int __pthread_rwlock_unlock(pthread_rwlock_t *);
int __pthread_once(pthread_once_t *, void (*)(void));
void __longjmp_chk(sigjmp_buf, int) __attribute__((noreturn));

/* The names that this library defines and for which it needs libc's function. */
/* clang-format off */
#define MF_INTERPOSED(X) \
    X(read) X(write) X(readv) X(writev) X(pread64) X(pwrite64) X(preadv64) X(pwritev64) X(__read_chk) X(__pread64_chk) \
    X(recv) X(recvfrom) X(recvmsg) X(recvmmsg) X(send) X(sendto) X(sendmsg) X(sendmmsg) X(__recv_chk)                  \
    X(__recvfrom_chk) X(accept) X(accept4) X(connect) X(setsockopt) X(poll) X(ppoll) X(select) X(pselect)              \
    X(__poll_chk) X(__ppoll_chk) X(epoll_wait) X(epoll_pwait) X(epoll_pwait2) X(close) X(close_range) X(closefrom)     \
    X(dup2) X(dup3) X(nanosleep) X(clock_nanosleep) X(usleep) X(sleep) X(getaddrinfo) X(getnameinfo) X(gethostbyname)  \
    X(gethostbyname2) X(gethostbyaddr) X(gethostbyname_r) X(gethostbyname2_r) X(gethostbyaddr_r) X(open64) X(openat64) \
    X(__open64_2) X(__openat64_2) X(fsync) X(fdatasync) X(syncfs) X(flock) X(fcntl) X(lockf64) X(wait) X(waitpid)      \
    X(wait3) X(wait4) X(waitid) X(system) X(popen) X(pclose) X(posix_spawn) X(posix_spawnp) X(pthread_mutex_lock)      \
    X(pthread_mutex_trylock) X(pthread_mutex_timedlock) X(pthread_mutex_clocklock) X(pthread_mutex_unlock)             \
    X(pthread_cond_wait) X(pthread_cond_timedwait) X(pthread_cond_clockwait) X(pthread_cond_signal)                    \
    X(pthread_cond_broadcast) X(pthread_rwlock_rdlock) X(pthread_rwlock_wrlock) X(pthread_rwlock_trywrlock)            \
    X(pthread_rwlock_timedrdlock) X(pthread_rwlock_timedwrlock) X(pthread_rwlock_clockrdlock)                          \
    X(pthread_rwlock_clockwrlock) X(pthread_rwlock_unlock) X(sem_wait) X(sem_timedwait) X(sem_clockwait) X(sem_post)   \
    X(pthread_rwlock_tryrdlock) X(sem_trywait) X(pthread_spin_trylock) X(pthread_spin_lock) X(pthread_join)            \
    X(pthread_barrier_wait) X(pthread_once) X(fread) X(__fread_chk) X(fgetc) X(fgets) X(__fgets_chk) X(getdelim)       \
    X(__uflow) X(__underflow) X(fwrite) X(fputs) X(puts) X(fputc) X(__overflow) X(fflush) X(fclose) X(vfprintf)        \
    X(__vfprintf_chk) X(vdprintf) X(__vdprintf_chk) X(sync_file_range) X(msync) X(sync) X(vfscanf) X(__isoc99_vfscanf) \
    X(__isoc23_vfscanf) X(pthread_sigmask) X(raise) X(pthread_kill) X(pthread_sigqueue) X(tgkill) X(fopen64)           \
    X(freopen64) X(preadv64v2) X(pwritev64v2) X(flockfile) X(ftrylockfile) X(funlockfile) X(pthread_create)            \
    X(thrd_create) X(thrd_join) X(sched_yield) X(_Fork) X(__sigsetjmp) X(siglongjmp) X(__longjmp_chk) X(syscall)
/* clang-format on */

/* Second names of the same definitions. libc's own exist partly for old programs only, and cannot be looked up. */
/* clang-format off */
#define MF_ALIASED(X)                                                                                                  \
    X(pread) X(pwrite) X(preadv) X(pwritev) X(__read) X(__write) X(__pread64) X(__pwrite64) X(__pread_chk) X(__send)   \
    X(__connect) X(__poll) X(__select) X(__close) X(__dup2) X(__nanosleep) X(open) X(__open) X(__open64) X(openat)     \
    X(creat) X(creat64) X(__open_2) X(__openat_2) X(lockf) X(fcntl64) X(__fcntl) X(__wait) X(__waitpid)                \
    X(__pthread_mutex_lock) X(__pthread_mutex_trylock) X(__pthread_mutex_unlock) X(__pthread_rwlock_rdlock)            \
    X(__pthread_rwlock_tryrdlock) X(__pthread_rwlock_wrlock) X(__pthread_rwlock_trywrlock) X(__pthread_rwlock_unlock)  \
    X(__pthread_once) X(fread_unlocked) X(getc) X(fgetc_unlocked) X(getc_unlocked) X(fgets_unlocked) X(getchar)        \
    X(getline) X(__getdelim) X(_IO_getc) X(_IO_putc) X(fwrite_unlocked) X(fputs_unlocked) X(putc) X(fputc_unlocked)    \
    X(putc_unlocked) X(putchar) X(putchar_unlocked) X(fflush_unlocked) X(fprintf) X(printf) X(vprintf)                 \
    X(__fprintf_chk) X(__printf_chk) X(__vprintf_chk) X(dprintf) X(__dprintf_chk) X(scanf) X(fscanf) X(vscanf)         \
    X(__vfscanf) X(__isoc99_scanf) X(__isoc99_fscanf) X(__isoc99_vscanf) X(__isoc23_scanf) X(__isoc23_fscanf)          \
    X(__isoc23_vscanf) X(fopen) X(freopen) X(preadv2) X(pwritev2) X(getchar_unlocked) X(getw) X(putw)                  \
    X(__fread_unlocked_chk) X(__fgets_unlocked_chk) X(eventfd_read) X(eventfd_write) X(mtx_lock) X(mtx_timedlock)      \
    X(mtx_trylock) X(mtx_unlock) X(cnd_wait) X(cnd_timedwait) X(cnd_signal) X(cnd_broadcast) X(call_once)              \
    X(thrd_sleep) X(thrd_yield) X(sigprocmask) X(longjmp) X(_longjmp) X(openat2)
/* clang-format on */

typedef enum mf_libc_index {
#define MF_LIBC_ENUM(name) MF_LIBC_##name,
    MF_INTERPOSED(MF_LIBC_ENUM)
#undef MF_LIBC_ENUM
        MF_LIBC_COUNT
} mf_libc_index;

extern _Atomic(void *) mf_libc_functions[MF_LIBC_COUNT];

/* A name and this library's definition of it. */
typedef struct mf_interposed {
    const char *name;
    void *definition;
} mf_interposed;

extern const mf_interposed mf_interposed_functions[];
extern const size_t mf_interposed_count;

/* Finds the next definition of that name after the program's. Aborts the program if there is none. */
void *mf_libc_find(mf_libc_index index);

/* Looks up all of them in advance, because the dynamic linker needs more stack than a small fiber may have. */
void mf_libc_find_all(void);

/* Looks the function up at the first call, because interposed functions are called before our constructors can run. */
static inline void *mf_libc_function(mf_libc_index index)
{
    void *function = atomic_load_explicit(&mf_libc_functions[index], memory_order_relaxed);
    return function ? function : mf_libc_find(index);
}

/* libc's own: LIBC(recv)(descriptor, ...) */
#define LIBC(name) ((__typeof__(&name))mf_libc_function(MF_LIBC_##name))

/*
 * A linker takes a file out of an archive only for a name that is still undefined. A library that comes before the
 * archive and defines the same names as the file, such as TSan's, would keep the file out of the program. Therefore
 * each file that interposes functions also defines a unique name, to which libc.c refers.
 */
/* clang-format off */
#define MF_INTERPOSING_FILES(X) \
    X(c11) X(close) X(file) X(flush) X(input) X(jump) X(name) X(open) X(output) X(poll) X(process) \
    X(pthread_barrier) X(pthread_cond) X(pthread_mutex) X(pthread_once) X(pthread_rwlock) X(pthread_spin) X(scan) \
    X(sem) X(signal) X(sleep) X(socket) X(stream) X(syscall) X(terminal) X(thread)
/* clang-format on */

#define MF_ALWAYS_LINKED(file) const char mf_linked_##file = 0

#define MF_DECLARE_LINKED(file) extern const char mf_linked_##file;
MF_INTERPOSING_FILES(MF_DECLARE_LINKED)
#undef MF_DECLARE_LINKED

/* Another name for an interposed function that the same file defines. */
#define ALIAS(name, target) extern __typeof__(target) name __attribute__((alias(#target), copy(target)))

/* The last statements of a function with variable arguments: they return the result of a function that takes a
 * va_list. */
#define RETURN_WITH_ARGUMENTS_AFTER(last, function, ...) \
    va_list arguments;                                   \
    va_start(arguments, last);                           \
    int result = function(__VA_ARGS__, arguments);       \
    va_end(arguments);                                   \
    return result

#endif
