/* terminal.c: see terminal.h. */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* A duplicate of the descriptor of the terminal whose mode is changed, and the mode before. Signal handlers read both,
 * so they are set before `changed`. Only the thread that has set `is_in_use` may write them. */
static struct termios before;
static int terminal = -1;
static atomic_bool changed, is_in_use;

/* The signals whose default action ends the process. Not SIGKILL, which cannot be handled, nor real-time signals, which
 * libraries use if they have no handler. */
static const int fatal[] = {
    SIGHUP,    SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS, SIGFPE,    SIGUSR1, SIGSEGV,
    SIGUSR2,   SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGSYS, SIGVTALRM, SIGPROF,
#ifdef SIGIO
    SIGIO,
#endif
#ifdef SIGSTKFLT
    SIGSTKFLT,
#endif
#ifdef SIGPWR
    SIGPWR,
#endif
};
enum { FATAL = sizeof fatal / sizeof *fatal };

/* tcsetattr(3) is async-signal-safe. SIGTTOU would stop a process in the background, so this blocks it. */
static void restore_now(void)
{
    if (!atomic_load(&changed))
        return;
    sigset_t output, old;
    sigemptyset(&output);
    sigaddset(&output, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &output, &old);
    tcsetattr(terminal, TCSAFLUSH, &before);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    atomic_store(&changed, false);
}

static void restore_and_die(int number)
{
    int error = errno;
    restore_now();
    signal(number, SIG_DFL);
    raise(number);
    errno = error;
}

/* Installs a handler for signals with the default action. If the program has a handler, the process ends in another
 * way, and the functions that changed the mode restore it. */
static void guard_signals(void)
{
    struct sigaction now, ours = {.sa_handler = restore_and_die};
    for (int i = 0; i < FATAL; i++)
        if (sigaction(fatal[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(fatal[i], &ours, NULL);
}

void mrh_terminal_guard(void)
{
    if (atomic_load(&changed))
        guard_signals();
}

static void unguard_signals(void)
{
    struct sigaction now, defaults = {.sa_handler = SIG_DFL};
    for (int i = 0; i < FATAL; i++)
        if (sigaction(fatal[i], NULL, &now) == 0 && now.sa_handler == restore_and_die)
            sigaction(fatal[i], &defaults, NULL);
}

static void apply(struct termios *mode, int kind)
{
    if (kind == MRH_TERMINAL_RAW) {
        cfmakeraw(mode);
        return;
    }
    mode->c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
    if (kind == MRH_TERMINAL_KEYS) {
        mode->c_lflag &= ~(tcflag_t)(ICANON | IEXTEN);
        mode->c_cc[VMIN] = 1;
        mode->c_cc[VTIME] = 0;
    }
}

static int release_terminal(int error)
{
    if (terminal >= 0)
        close(terminal);
    terminal = -1;
    atomic_store(&is_in_use, false);
    return -error;
}

int mrh_terminal_change(int descriptor, int kind)
{
    static bool watches_exit;
    struct termios mode;
    if (atomic_exchange(&is_in_use, true))
        return -EBUSY;
    terminal = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (terminal < 0 || tcgetattr(terminal, &before) < 0)
        return release_terminal(errno);
    if (!watches_exit && atexit(restore_now) == 0)
        watches_exit = true;
    mode = before;
    apply(&mode, kind);
    atomic_store(&changed, true);
    guard_signals();
    if (tcsetattr(terminal, TCSAFLUSH, &mode) == 0)
        return 0;
    int error = errno;
    mrh_terminal_restore();
    return -error;
}

void mrh_terminal_restore(void)
{
    restore_now();
    unguard_signals();
    release_terminal(0);
}

int mrh_open_terminal(void)
{
    int descriptor = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    return descriptor < 0 ? -errno : descriptor;
}

int mrh_is_terminal(int descriptor)
{
    return isatty(descriptor);
}

int mrh_terminal_size(int descriptor, int *rows, int *columns)
{
    struct winsize size;
    if (ioctl(descriptor, TIOCGWINSZ, &size) < 0)
        return -errno;
    *rows = size.ws_row;
    *columns = size.ws_col;
    return 0;
}

int mrh_set_terminal_size(int descriptor, int rows, int columns)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    return ioctl(descriptor, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}
