/*
 * endpoints.h - a list of brokers as people write it: "tcp://a:5550,tcp://b:5550", or one DNS name that stands for several hosts.
 *
 * Client and worker read it alike: who lists the same brokers must mean the same brokers.
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

/* Entries are separated by commas; spaces around them and repetitions do not count. INVALID names the entry that is none, or too much of it all. */
enum pen_status endpoints_parse(const char *list, struct endpoints *ret_endpoints, struct pen_error *reterr);

enum endpoint_names {
    ENDPOINT_NAMES_REPLACED,
    ENDPOINT_NAMES_KEPT, /* behind all addresses */
};

/*
 * Puts the addresses behind each tcp:// name that has several in its place. ENDPOINT_NAMES_KEPT: and the name itself behind them all, as it may mean other hosts
 * by the time those are gone. Asks the resolver, which may take seconds; names that it does not know, or that have one address, stay as they are. What
 * goes beyond ENDPOINTS_MAX is left out. NO_MEMORY: the list is as it was.
 */
enum pen_status endpoints_resolve(struct endpoints *endpoints, enum endpoint_names names, struct pen_error *reterr);

void endpoints_fini(struct endpoints *endpoints);

#endif
