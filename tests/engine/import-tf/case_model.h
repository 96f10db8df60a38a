/*
 * case_model.h - the model of a case, written as the file that a converter would have written: model.json and its shard, or a .tflite.
 *
 * Threads: one-at-a-time.
 */
#ifndef CASE_MODEL_H
#define CASE_MODEL_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/* *path receives the file to load. open: dimensions of inputs are left unknown. */
void case_model_write(const cJSON *line, const char *folder, bool open, char *path, size_t bytes);

/* case_lite.c */
void case_lite_write(const cJSON *line, const char *path, bool open);

#endif
