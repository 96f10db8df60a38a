/*
 * catalog_own.h - what catalog.c and catalog_scan.c share. Nobody else includes this.
 * Threads: one-at-a-time.
 */
#ifndef CATALOG_OWN_H
#define CATALOG_OWN_H

#include "catalog.h"
#include "config_internal.h"

#define CATALOG_PATH_BYTES 4096

/* Counts the failure, keeps it for the brokers, and logs it unless it was logged before. stamp: of the entry that
   could not be loaded, or 0. */
void catalog_failed(struct catalog *catalog, const char *name, uint64_t version, uint64_t stamp,
                    const struct pen_error *error);

#endif
