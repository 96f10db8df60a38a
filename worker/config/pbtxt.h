/*
 * pbtxt.h - protobuf's text format, as Triton's config.pbtxt is written in, without a schema.
 *
 * A message becomes an object; each of its fields an array of all values that the field was given, in their order: `dims: [1, 2]`, `dims: 1 dims: 2` and two
 * blocks of one name look alike. Values: numbers, booleans, texts (names of enums too), objects. Source of the grammar: the text format language
 * specification of Protocol Buffers.
 * Threads: any (pure function).
 */
#ifndef PBTXT_H
#define PBTXT_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "penstock/status.h"

#define PBTXT_BYTES_MAX  (1u << 20)
#define PBTXT_DEPTH_MAX  32u
#define PBTXT_VALUES_MAX 8192u /* and names */
#define PBTXT_TEXT_MAX   4096u /* of one text or name */

/* Gives *ret_message (cJSON_Delete). The sentence says the line. */
enum pen_status pbtxt_parse(const char *text, size_t bytes, cJSON **ret_message, struct pen_error *reterr);

#endif
