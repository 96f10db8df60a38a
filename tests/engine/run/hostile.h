/*
 * hostile.h - an engine and a folder for a file that means harm, and what it may cost.
 * Threads: owner.
 */
#ifndef TEST_HOSTILE_H
#define TEST_HOSTILE_H

#include "folder.h"
#include "onnx_writer.h"
#include "penstock/engine.h"

extern char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 64]; /* the model: FOLDER/inside/model.onnx */
extern struct pen_engine *engine;
extern struct pen_error error; /* of the last load or run */

void setup(void); /* with the backend xnnpack */
void teardown(void);
void engine_open(const char *backend);              /* sets `engine` */
enum pen_status load(struct pen_model **ret_model); /* the file at `path` */

uint64_t peak_bytes(void); /* resident memory of this process at its highest */
uint64_t now_us(void);

#endif
