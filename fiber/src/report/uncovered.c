/* uncovered.c: finds functions of libc that may block a carrier: those that the program or a library imports and
 * Millrace does not interpose. */
#include "../interpose/libc.h"
#include "report.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

/* The functions of libc that are not interposed and may wait: for a peer, another process, a terminal, time or a name
 * service. Functions that use only the processor or a disk are not listed. */
static const char *const blocking[] = {
    "__fgetws_chk",
    "__fgetws_unlocked_chk",
    "__fwprintf_chk",
    "__getlogin_r_chk",
    "__gets_chk",
    "__isoc23_fwscanf",
    "__isoc23_vfwscanf",
    "__isoc23_vwscanf",
    "__isoc23_wscanf",
    "__isoc99_fwscanf",
    "__isoc99_vfwscanf",
    "__isoc99_vwscanf",
    "__isoc99_wscanf",
    "__res_nquery",
    "__res_nquerydomain",
    "__res_nsearch",
    "__res_nsend",
    "__res_query",
    "__res_querydomain",
    "__res_search",
    "__res_send",
    "__sigpause",
    "__sigsuspend",
    "__syslog_chk",
    "__vfwprintf_chk",
    "__vsyslog_chk",
    "__vwprintf_chk",
    "__wprintf_chk",
    "__xpg_sigpause",
    "_flushlbf",
    "aio_suspend",
    "aio_suspend64",
    "copy_file_range",
    "cuserid",
    "err",
    "error",
    "error_at_line",
    "errx",
    "ether_hostton",
    "ether_ntohost",
    "fcloseall",
    "fgetwc",
    "fgetwc_unlocked",
    "fgetws",
    "fgetws_unlocked",
    "fmtmsg",
    "fputwc",
    "fputwc_unlocked",
    "fputws",
    "fputws_unlocked",
    "fwprintf",
    "fwscanf",
    "gai_suspend",
    "getaddrinfo_a",
    "getaliasbyname",
    "getaliasbyname_r",
    "getaliasent",
    "getaliasent_r",
    "getgrent",
    "getgrent_r",
    "getgrgid",
    "getgrgid_r",
    "getgrnam",
    "getgrnam_r",
    "getgrouplist",
    "gethostent",
    "gethostent_r",
    "gethostid",
    "getlogin",
    "getlogin_r",
    "getnetbyaddr",
    "getnetbyaddr_r",
    "getnetbyname",
    "getnetbyname_r",
    "getnetent",
    "getnetent_r",
    "getnetgrent",
    "getnetgrent_r",
    "getpass",
    "getprotobyname",
    "getprotobyname_r",
    "getprotobynumber",
    "getprotobynumber_r",
    "getprotoent",
    "getprotoent_r",
    "getpw",
    "getpwent",
    "getpwent_r",
    "getpwnam",
    "getpwnam_r",
    "getpwuid",
    "getpwuid_r",
    "getrpcbyname",
    "getrpcbyname_r",
    "getrpcbynumber",
    "getrpcbynumber_r",
    "getrpcent",
    "getrpcent_r",
    "gets",
    "getservbyname",
    "getservbyname_r",
    "getservbyport",
    "getservbyport_r",
    "getservent",
    "getservent_r",
    "getsgent",
    "getsgent_r",
    "getsgnam",
    "getsgnam_r",
    "getspent",
    "getspent_r",
    "getspnam",
    "getspnam_r",
    "getutent",
    "getutent_r",
    "getutid",
    "getutid_r",
    "getutline",
    "getutline_r",
    "getutxent",
    "getutxid",
    "getutxline",
    "getwc",
    "getwc_unlocked",
    "getwchar",
    "getwchar_unlocked",
    "herror",
    "initgroups",
    "innetgr",
    "io_getevents",
    "lckpwdf",
    "lio_listio",
    "lio_listio64",
    "login",
    "logout",
    "logwtmp",
    "mq_receive",
    "mq_send",
    "mq_timedreceive",
    "mq_timedsend",
    "msgrcv",
    "msgsnd",
    "pause",
    "perror",
    "pidfd_spawn",
    "pidfd_spawnp",
    "psiginfo",
    "psignal",
    "pthread_clockjoin_np",
    "pthread_timedjoin_np",
    "pututline",
    "pututxline",
    "putwc",
    "putwc_unlocked",
    "putwchar",
    "putwchar_unlocked",
    "rcmd",
    "rcmd_af",
    "res_nquery",
    "res_nquerydomain",
    "res_nsearch",
    "res_nsend",
    "res_query",
    "res_querydomain",
    "res_search",
    "res_send",
    "rexec",
    "rexec_af",
    "semop",
    "semtimedop",
    "sendfile",
    "sendfile64",
    "setnetgrent",
    "sigpause",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "splice",
    "syslog",
    "tcdrain",
    "tcflow",
    "tcsendbreak",
    "tcsetattr",
    "tee",
    "updwtmp",
    "updwtmpx",
    "verr",
    "verrx",
    "vfwprintf",
    "vfwscanf",
    "vmsplice",
    "vsyslog",
    "vwarn",
    "vwarnx",
    "vwprintf",
    "vwscanf",
    "warn",
    "warnx",
    "wordexp",
    "wprintf",
    "wscanf",
};

static bool may_block(const char *name)
{
    for (size_t i = 0; i < sizeof blocking / sizeof *blocking; i++)
        if (strcmp(blocking[i], name) == 0)
            return true;
    return false;
}

/* The tables of an ELF object that are needed to list its symbols. Its dynamic section has their addresses. */
typedef struct symbols {
    const ElfW(Sym) * table;
    const char *strings;
    const uint32_t *gnu_hash;
    const ElfW(Word) * hash;
} symbols;

/* The address of a table in memory. glibc's loader has added the object's base address to the entries of the dynamic
 * section, but not to the vDSO's, nor on some processors. An address below the base was not adjusted yet. */
static const void *relocated(const struct dl_phdr_info *object, ElfW(Addr) address)
{
    return (const void *)(address < object->dlpi_addr ? object->dlpi_addr + address : address);
}

static symbols find_symbols(const struct dl_phdr_info *object, const ElfW(Dyn) * entry)
{
    symbols found = {0};
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *value = relocated(object, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            found.table = value;
        else if (entry->d_tag == DT_STRTAB)
            found.strings = value;
        else if (entry->d_tag == DT_GNU_HASH)
            found.gnu_hash = value;
        else if (entry->d_tag == DT_HASH)
            found.hash = value;
    }
    return found;
}

/* The index after the last imported symbol; ELF does not store it. The GNU hash table begins with the first defined
 * symbol, and all imported ones are before that. The older DT_HASH table has the number of all symbols. */
static size_t imported_symbols_end(const symbols *s)
{
    if (s->gnu_hash)
        return s->gnu_hash[1];
    return s->hash ? s->hash[1] : 0;
}

typedef struct search {
    mr_uncovered_call *visit;
    void *argument;
    unsigned count;
} search;

static void search_symbols(const symbols *s, const char *object, search *all)
{
    for (size_t i = 1; i < imported_symbols_end(s); i++) {
        const char *name = s->strings + s->table[i].st_name;
        if (s->table[i].st_shndx != SHN_UNDEF || !may_block(name))
            continue;
        all->count++;
        if (all->visit)
            all->visit(all->argument, object, name);
    }
}

static bool is_system_itself(const char *name)
{
    static const char *const own[] = {"/libc.so", "/ld-linux", "/libpthread", "linux-vdso",
                                      "/libasan", "/libtsan",  "/libubsan",   "/liblsan"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strstr(name, own[i]))
            return true;
    return false;
}

static int search_object(struct dl_phdr_info *object, size_t size, void *argument)
{
    (void)size;
    const char *name = *object->dlpi_name ? object->dlpi_name : "the program";
    if (is_system_itself(name))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        symbols s = find_symbols(object, (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr));
        if (s.table && s.strings)
            search_symbols(&s, name, argument);
    }
    return 0;
}

unsigned mr_uncovered_calls(mr_uncovered_call *visit, void *argument)
{
    search all = {.visit = visit, .argument = argument};
    dl_iterate_phdr(search_object, &all);
    return all.count;
}

static void report_call(void *argument, const char *object, const char *name)
{
    (void)argument;
    mf_report("%s imports %s, which is not interposed and may block a carrier", object, name);
}

void mf_report_uncovered(void)
{
    if (mf_reports_uncovered)
        mr_uncovered_calls(report_call, NULL);
}
