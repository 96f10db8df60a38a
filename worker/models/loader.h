/*
 * loader.h - loads, warms and frees one model beside a serving worker: in the background (background.h), and without the threads that help its slots. Threads:
 * one-at-a-time; the caller waits.
 */
#ifndef LOADER_H
#define LOADER_H

#include "catalog.h"

/* Gives a warm model, from what the scan found (its config is taken over). threads: of a slot. */
enum pen_status loader_run(struct pen_engine *engine, struct catalog_entry *entry, uint32_t slots, uint32_t threads,
                           struct served **ret_served, struct pen_error *reterr);

/* Brings a cold model back: its file, its sessions, their warm-up. On failure it is as cold as before. */
enum pen_status loader_heat(struct pen_engine *engine, struct served *served, uint32_t slots, uint32_t threads,
                            struct pen_error *reterr);

void loader_free(struct served *served); /* served_free */
void loader_cool(struct served *served); /* served_cool */

#endif
