/*
 * failed.h - a model that a worker could not load, for people and for programs.
 *
 * Threads: owner.
 */
#ifndef FAILED_H
#define FAILED_H

#include <cjson/cJSON.h>

#include "penstock/client.h"

#define FAILED_NAME_BYTES 300

/* "digits:2", or "digits" when no version was come to. */
const char *failed_name(const struct pen_failed_model *failed, char text[FAILED_NAME_BYTES]);

/* Keys: penstock models --help. */
cJSON *failed_json(const struct pen_failed_model *failed);

/* Why no worker serves the model: NOT_FOUND with the sentence of one that has it; PEN_OK when none says so. version 0 = any. */
enum pen_status failed_why(const struct pen_model_list *models, const char *name, uint64_t version,
                           struct pen_error *reterr);

#endif
