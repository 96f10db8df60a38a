/*
 * address.h - addresses that settings name: where HTTP is served, which host is this machine, where a collector of traces listens.
 * Threads: any.
 */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "penstock/status.h"

/* "127.0.0.1:8002" or "[::1]:8002"; port * is 0, the system's choice. INVALID with a sentence otherwise. */
enum pen_status address_parse(const char *address, struct sockaddr_storage *ret_socket, socklen_t *ret_size,
                              struct pen_error *reterr);
/* "localhost", "127.0.0.1", "[::1]", with or without a port. */
bool address_host_local(const char *host);

struct collector_address {
    char host[256], port[8], path[256];
};
/* "http://HOST:PORT[/PATH]" (without a path: /v1/traces); INVALID with a sentence otherwise. */
enum pen_status address_collector(const char *url, struct collector_address *ret_address, struct pen_error *reterr);

#endif
