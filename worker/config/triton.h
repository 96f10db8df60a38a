/*
 * triton.h - Triton's config.pbtxt as the object that config.json would hold.
 *
 * What has a meaning here is kept under its name; what has none, or another one than people might rely on, is named in `ignored`; what would give wrong answers
 * is refused with what to do instead. deploy/TRITON.md is the page for people, and a test compares it with the table here.
 * Threads: any.
 */
#ifndef TRITON_H
#define TRITON_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "penstock/status.h"

#define TRITON_IGNORED_BYTES 512

/* Gives *ret_config, of the form config.json has. `ignored` gets names, separated by ", "; "" = everything was understood. */
enum pen_status triton_convert(const char *text, size_t bytes, cJSON **ret_config, char ignored[TRITON_IGNORED_BYTES],
                               struct pen_error *reterr);

enum triton_fate { TRITON_UNKNOWN, TRITON_READ, TRITON_NAMED, TRITON_REFUSED };
/* What becomes of a field, by its path: "dynamic_batching.preserve_ordering" is TRITON_NAMED. */
enum triton_fate triton_fate(const char *path);

#endif
