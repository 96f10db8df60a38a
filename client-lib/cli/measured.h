/*
 * measured.h - how far answers are from the reference's, for people and for programs: of offers, of workers and of results.
 *
 * Threads: any.
 */
#ifndef MEASURED_H
#define MEASURED_H

#include <cjson/cJSON.h>

#include "penstock/admin.h"

#define MEASURED_TEXT_BYTES 128

/* Keys: penstock models --help. JSON has no infinity: an error that no number says is null. What was not measured is null as a whole. */
cJSON *measured_json(const struct pen_offered_error *error);

/* "error at most 3.6e-07, 5e-08 on average (4 seeded sets of inputs)", "the reference", "error not measured"; gives `text`. */
const char *measured_text(const struct pen_offered_error *error, char text[MEASURED_TEXT_BYTES]);

#endif
