/* client.h - what world.c needs of the clients. */
#ifndef CLIENT_H
#define CLIENT_H

#include "world.h"

void client_receive(client *c, uint8_t ecn, const uint8_t *bytes, size_t length);
uint64_t client_expiry(const client *c);
/* Does what is due, and sends what can be sent. */
void client_work(client *c);
void free_client(client *c);

/* world.c */
void send_to_server(client *c, uint8_t ecn, const uint8_t *bytes, size_t length);
uint8_t pattern(uint64_t at);

#endif
