/* pages.c - the files of pages/ as bytes in the program. The assembler reads them (.incbin), so no tool has to make C
 * or Haskell of them. Must not know: GHC. */
#include <stddef.h>

#if defined(_WIN32)
__asm__(".section .rdata,\"dr\"\n");
#else
__asm__(".section .rodata,\"a\"\n");
#endif
__asm__("cli_listing_css:\n"
        ".incbin \"listing.css\"\n"
        "cli_listing_css_end:\n"
        "cli_status_html:\n"
        ".incbin \"status.html\"\n"
        "cli_status_html_end:\n");
__asm__(".text\n");

extern const char cli_listing_css[], cli_listing_css_end[];
extern const char cli_status_html[], cli_status_html_end[];

const char *millrace_cli_listing_css(size_t *size);
const char *millrace_cli_status_html(size_t *size);

const char *millrace_cli_listing_css(size_t *size)
{
    *size = (size_t)(cli_listing_css_end - cli_listing_css);
    return cli_listing_css;
}

const char *millrace_cli_status_html(size_t *size)
{
    *size = (size_t)(cli_status_html_end - cli_status_html);
    return cli_status_html;
}
