/* process.c: starts Winsock and finds its extension functions, once per process. */
#include "port.h"
#include "process.h"

#include <stdio.h>
#include <string.h>

LPFN_CONNECTEX mr_port_connect_ex;
LPFN_ACCEPTEX mr_port_accept_ex;

static bool find_function(SOCKET number, GUID name, void *function, DWORD size)
{
    DWORD written;
    return WSAIoctl(number, SIO_GET_EXTENSION_FUNCTION_POINTER, &name, sizeof name, function, size, &written, NULL,
                    NULL) == 0;
}

static BOOL CALLBACK start_winsock(INIT_ONCE *once, void *error, void **unused)
{
    WSADATA data;
    (void)once, (void)unused;
    int failure = WSAStartup(MAKEWORD(2, 2), &data);
    if (failure) {
        *(int *)error = mr_error_of_winsock(failure);
        return FALSE;
    }
    SOCKET any = socket(AF_INET, SOCK_STREAM, 0);
    bool found = any != INVALID_SOCKET &&
                 find_function(any, (GUID)WSAID_ACCEPTEX, &mr_port_accept_ex, sizeof mr_port_accept_ex) &&
                 find_function(any, (GUID)WSAID_CONNECTEX, &mr_port_connect_ex, sizeof mr_port_connect_ex);
    *(int *)error = found ? 0 : mr_port_last_error();
    if (any != INVALID_SOCKET)
        closesocket(any);
    return found;
}

int mr_port_prepare_process(void)
{
    static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
    int error = 0;
    return InitOnceExecuteOnce(&once, start_winsock, &error, NULL) ? 0 : error;
}

int mr_port_probe(char *reason, size_t reason_size)
{
    int error = mr_port_prepare_process();
    if (error && reason)
        snprintf(reason, reason_size, "Winsock 2.2 with AcceptEx and ConnectEx is not available: %s", strerror(-error));
    return error;
}
