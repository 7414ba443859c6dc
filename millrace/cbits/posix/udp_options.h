/* udp_options.h: UDP options that older glibc headers lack. Linux only. Must not know: GHC, loops. */
#ifndef MILLRACE_UDP_OPTIONS_H
#define MILLRACE_UDP_OPTIONS_H

#include <netinet/udp.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* Linux 4.18 */
#endif
#ifndef UDP_GRO
#define UDP_GRO 104 /* Linux 5.0 */
#endif

#endif
