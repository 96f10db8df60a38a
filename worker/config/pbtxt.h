/*
 * pbtxt.h - reads protobuf's text format without a schema; Triton's config.pbtxt is written in it.
 *
 * A message becomes an object. A field becomes an array of all its values, in their order, so `dims: [1, 2]` and `dims:
 * 1 dims: 2` give the same array, and so do two blocks of one name. Values: numbers, booleans, texts (names of enums
 * too), objects. Source of the grammar: the text format language specification of Protocol Buffers.
 * Threads: any (pure function).
 */
#ifndef PBTXT_H
#define PBTXT_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "penstock/status.h"

#define PBTXT_BYTES_MAX  (1u << 20)
#define PBTXT_DEPTH_MAX  32u
#define PBTXT_VALUES_MAX 8192u /* values and names in all */
#define PBTXT_TEXT_MAX   4096u /* of one text or name */

/* Gives *ret_message (cJSON_Delete). The error's sentence names the line. */
enum pen_status pbtxt_parse(const char *text, size_t bytes, cJSON **ret_message, struct pen_error *reterr);

#endif
