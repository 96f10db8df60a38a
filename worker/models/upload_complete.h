/*
 * upload_complete.h - is a version's folder complete, or is somebody still writing there? It looks for signs that do
 * not depend on time: no model yet, an empty file, a file that another process has open for writing, a pointer of
 * git-lfs in place of the model.
 *
 * When a copy was given up half-way, loading the model finds that out.
 * Threads: any (no state).
 */
#ifndef UPLOAD_COMPLETE_H
#define UPLOAD_COMPLETE_H

#include <stdbool.h>
#include <stdint.h>

#include "penstock/status.h"

/*
 * BUSY: the folder is not complete; the sentence says what is missing. An open file is only noticed when the file
 * system can tell, and the file belongs to this user or the process has CAP_LEASE.
 */
enum pen_status upload_complete(const char *folder, struct pen_error *reterr);

/* True when a file system of this type (statfs) can tell by a lease whether a file is open for writing. False for
   network file systems. */
bool upload_lease_tells(uint32_t system);

/* INVALID when the file is a pointer of git-lfs. */
enum pen_status upload_pointer_check(const char *path, struct pen_error *reterr);

#endif
