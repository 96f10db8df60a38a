/*
 * endpoints.h - a list of brokers as people write it: "tcp://a:5550,tcp://b:5550", or one DNS name that stands for
 * several hosts.
 *
 * Client and worker read it with the same code, so that the same list means the same brokers.
 * Ownership: the struct owns its texts. Threads: one-at-a-time.
 */
#ifndef ENDPOINTS_H
#define ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "penstock/status.h"

#define ENDPOINTS_MAX           16u
#define ENDPOINTS_BYTES_MAX     2048u /* of a whole list */
#define ENDPOINTS_ONE_BYTES_MAX 255u

struct endpoints {
    size_t count; /* at least 1 after endpoints_parse */
    char *texts[ENDPOINTS_MAX];
};

/* Entries are separated by commas; spaces around them and repeated entries are ignored. INVALID names the entry that
   is malformed, or says that the list is too long. */
enum pen_status endpoints_parse(const char *list, struct endpoints *ret_endpoints, struct pen_error *reterr);

/* False: tcp:// and a number that is no port. (ZeroMQ takes what is left of it: of 99999 port 34463.) */
bool endpoint_port_fits(const char *endpoint);

enum endpoint_names {
    ENDPOINT_NAMES_REPLACED,
    ENDPOINT_NAMES_KEPT, /* keeps the name, behind all addresses */
};

/*
 * Replaces each tcp:// name that has several addresses by these. ENDPOINT_NAMES_KEPT: adds the name itself at the end,
 * because it may stand for other hosts later. Asks the resolver, which may take seconds; a name that is unknown or has
 * one address stays as it is. Entries beyond ENDPOINTS_MAX are left out. NO_MEMORY: the list is unchanged.
 */
enum pen_status endpoints_resolve(struct endpoints *endpoints, enum endpoint_names names, struct pen_error *reterr);

void endpoints_fini(struct endpoints *endpoints);

#endif
