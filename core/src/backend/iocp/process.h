/* process.h: what a process prepares once: the functions of winsock that are looked up. For the files of this folder
 * only. */
#ifndef MILLRACE_PORT_PROCESS_H
#define MILLRACE_PORT_PROCESS_H

#include "port.h"

extern LPFN_CONNECTEX mr_port_connect_ex;
extern LPFN_ACCEPTEX mr_port_accept_ex;

int mr_port_prepare_process(void);
int mr_port_probe(char *reason, size_t reason_size);

#endif
