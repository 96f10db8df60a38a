/*
 * triton.h - converts Triton's config.pbtxt into the object that config.json would hold.
 *
 * A field with the same meaning here is kept under its name. A field without a meaning here, or with another one than
 * people may expect, is listed in `ignored`. A field that would lead to wrong answers is refused, with a sentence what
 * to do instead. deploy/TRITON.md lists all fields; a test compares it with the table here.
 * Threads: any.
 */
#ifndef TRITON_H
#define TRITON_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "penstock/status.h"

#define TRITON_IGNORED_BYTES 512

/* Gives *ret_config in the form of config.json. `ignored` gets names, separated by ", "; "" = every field was
   understood. */
enum pen_status triton_convert(const char *text, size_t bytes, cJSON **ret_config, char ignored[TRITON_IGNORED_BYTES],
                               struct pen_error *reterr);

enum triton_fate { TRITON_UNKNOWN, TRITON_READ, TRITON_NAMED, TRITON_REFUSED };
/* What is done with a field, by its path: "dynamic_batching.preserve_ordering" is TRITON_NAMED. */
enum triton_fate triton_fate(const char *path);

#endif
