/*
 * json_reader.h - reads a JSON object with a table of its keys; an error names the path and the nearest known key.
 *
 * Threads: any (pure functions).
 */
#ifndef JSON_READER_H
#define JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "penstock/status.h"

#define JSON_PATH_BYTES 192

/* One key an object may have. `read` gets the value, its path ("dynamic_batching.max_queue_delay_microseconds") and the caller's target. */
struct json_field {
    const char *name; /* NULL ends the table */
    enum pen_status (*read)(const cJSON *value, const char *path, void *target, struct pen_error *reterr);
};

/* Every key must be in the table, and may occur once; the path of the top level is "". */
enum pen_status json_object(const cJSON *object, const char *path, const struct json_field *fields, void *target,
                            struct pen_error *reterr);

/* "a, b, c": the names of the table, cut to fit. */
void json_fields_list(const struct json_field *fields, char *text, size_t room);

enum pen_status json_bool(const cJSON *value, const char *path, bool *ret_value, struct pen_error *reterr);
enum pen_status json_u64(const cJSON *value, const char *path, uint64_t min, uint64_t max, uint64_t *ret_value,
                         struct pen_error *reterr);
enum pen_status json_u32(const cJSON *value, const char *path, uint32_t min, uint32_t max, uint32_t *ret_value,
                         struct pen_error *reterr);
/* 1..limit_bytes bytes. Borrows: the text lives as long as the parsed document. */
enum pen_status json_text(const cJSON *value, const char *path, size_t limit_bytes, const char **ret_text,
                          struct pen_error *reterr);
/* One of `choices`, separated by '|'; *ret_index is its position among them. */
enum pen_status json_choice(const cJSON *value, const char *path, const char *choices, uint32_t *ret_index,
                            struct pen_error *reterr);
/* 1..room finite numbers. */
enum pen_status json_floats(const cJSON *value, const char *path, size_t room, float *ret_values, size_t *ret_count,
                            struct pen_error *reterr);
/* An array of at most `limit` entries; *ret_count is their number. */
enum pen_status json_array(const cJSON *value, const char *path, size_t limit, size_t *ret_count,
                           struct pen_error *reterr);

#endif
