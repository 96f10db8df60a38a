/*
 * json.h - JSON text from strangers: size and depth are checked before the parser sees it, and reading never fails loudly.
 *
 * Threads: any.
 */
#ifndef TFJS_JSON_H
#define TFJS_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define JSON_BYTES_MAX (256u << 20)
#define JSON_DEPTH_MAX 128

enum pen_status tfjs_json_parse(const void *bytes, size_t size, cJSON **ret_json, struct pen_error *reterr);
const cJSON *tfjs_json_get(const cJSON *object, const char *name);  /* NULL when absent, null, or no object */
const cJSON *tfjs_json_list(const cJSON *object, const char *name); /* NULL when absent or no list */
const char *tfjs_json_text(const cJSON *object, const char *name);  /* NULL when absent or no string */
/* Numbers, and numbers written as strings. False when it is neither or does not fit. */
bool tfjs_json_integer(const cJSON *item, int64_t *ret);
int64_t tfjs_json_int(const cJSON *object, const char *name, int64_t def);
double tfjs_json_number(const cJSON *object, const char *name, double def);
bool tfjs_json_bool(const cJSON *object, const char *name, bool def);
/* A list of integers (or one, repeated `one` times); how many, -1 when it is none or longer than room. */
int tfjs_json_ints(const cJSON *item, int64_t *items, int room, int one);

#endif
