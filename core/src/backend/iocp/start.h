/* start.h: starts operations that complete at the port. For the files of this folder only. */
#ifndef MILLRACE_PORT_START_H
#define MILLRACE_PORT_START_H

#include "port.h"

/* Associates the socket with this loop's port, unless it belongs to another one. Returns 0 or a negative errno. */
int mr_port_associate(mr_loop *loop, mr_slot *slot);

/* Starts an operation. Returns 0 if a completion will come, or the error that prevents it. */
int mr_port_start(mr_port_operation *op);

/* Frees what an operation holds, also a socket that was to be accepted. */
void mr_port_clean_up(mr_port_operation *op);

/* Converts errors that are no errors on POSIX: a receive after the receiving side was shut down, and a read beyond the
 * end of a file, return 0. */
int64_t mr_port_with_end(mr_kind kind, int64_t result);

WSABUF mr_port_whole_buffer(const mr_request *request);

/* Converts iovecs to WSABUFs, which have the same members in another order and size. Returns the number of elements. */
DWORD mr_port_copy_elements(WSABUF *elements, const mr_request *request);

/* The number of bytes of the file that one call can send; 0 at its end. */
int64_t mr_port_bytes_of_file(const mr_request *request);

/* Maps the part of the file with which a request begins. Unlike reading, a view does not move the file's position.
 * TransmitFile would not either, but under Wine 8 it never ends if the peer disconnects meanwhile. */
int mr_port_map_file(const mr_request *request, void **view, WSABUF *bytes);
void mr_port_unmap_file(void **view);

/* True for files. Windows would also read a socket as if it were a file. */
bool mr_port_is_file(HANDLE handle);
int mr_port_begin_on_file(const mr_slot *slot, OVERLAPPED *overlapped);

/* Syncs a file. Windows has no asynchronous operation for that: the caller waits for the disk. */
int mr_port_sync_file(const mr_slot *slot);

#endif
