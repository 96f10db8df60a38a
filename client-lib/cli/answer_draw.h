/*
 * answer_draw.h - what a model found, drawn on the picture: boxes, labels, points, skeletons, masks.
 *
 * Threads: owner.
 */
#ifndef ANSWER_DRAW_H
#define ANSWER_DRAW_H

#include <cjson/cJSON.h>

#include "picture.h"
#include "penstock/client.h"

/* The first row's answer, as deploy/ANSWERS.md describes the JSON: from the output "answer", or made of the tensors boxes, points and so on. NULL: the result is no
   such answer. Free it with cJSON_Delete. */
cJSON *answer_read(const pen_result *result);

/* Prints what it says, a line for each class or object; false: the result has no such answer, and nothing was printed. */
bool answer_show(const pen_result *result);

/* Draws it. canvas: RGB, of any size: coordinates are scaled from the width and height that the answer tells. */
void answer_draw(const cJSON *answer, struct picture *canvas);

/* Reads the picture `file`, draws the result's answer on it, and writes the PNG `out`. INVALID: nothing of the result can be drawn. */
enum pen_status answer_draw_file(const pen_result *result, const char *file, const char *out, struct pen_error *reterr);

#endif
