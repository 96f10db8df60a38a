/*
 * upload_complete.h - is what lies in a version's folder whole, or does somebody still write there?
 *
 * Looked at are signs that do not depend on time: no model yet, an empty file, a file that another process has open for writing, a pointer of git-lfs in
 * place of the model. What a stalled copy has left, with nobody at it, is found by loading it.
 * Threads: any (no state).
 */
#ifndef UPLOAD_COMPLETE_H
#define UPLOAD_COMPLETE_H

#include <stdbool.h>
#include <stdint.h>

#include "penstock/status.h"

/*
 * BUSY: it is not yet; the sentence says what is waited for. That a file is open for writing is seen where the file system can tell, and the
 * file is this user's own or the process has CAP_LEASE.
 */
enum pen_status upload_complete(const char *folder, struct pen_error *reterr);

/* Can a file system of this type (statfs) tell by a lease whether a file is open for writing? False for what is served over a network. */
bool upload_lease_tells(uint32_t system);

/* INVALID when the file is a pointer of git-lfs. */
enum pen_status upload_pointer_check(const char *path, struct pen_error *reterr);

#endif
