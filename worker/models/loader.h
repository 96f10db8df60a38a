/*
 * loader.h - loads, warms and frees one model beside a serving worker: in the background (background.h), and without the threads that help its slots. Threads:
 * one-at-a-time; the caller waits.
 */
#ifndef LOADER_H
#define LOADER_H

#include "catalog.h"

/* Gives a warm model for an entry of a scan (takes its config over). threads: of one slot. */
enum pen_status loader_run(struct pen_engine *engine, struct catalog_entry *entry, uint32_t slots, uint32_t threads,
                           struct served **ret_served, struct pen_error *reterr);

/* Loads a cold model again: its file, its sessions, their warm-up. On failure it stays cold. */
enum pen_status loader_heat(struct pen_engine *engine, struct served *served, uint32_t slots, uint32_t threads,
                            struct pen_error *reterr);
/*
 * The same for a model that slept (--idle-unload). Jobs wait for it, and it was warmed before: so nothing is run and
 * nothing is measured again; the first job prepares its own shape. aside: in the background, because slots serve other
 * models meanwhile; else at once.
 */
enum pen_status loader_wake(struct pen_engine *engine, struct served *served, uint32_t slots, bool aside,
                            struct pen_error *reterr);

void loader_free(struct served *served); /* served_free */
void loader_cool(struct served *served); /* served_cool */

#endif
