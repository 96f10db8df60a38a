/*
 * model_file.h - which file of a version folder is the model: model.onnx, model.tflite, or a TensorFlow.js topology.
 *
 * A topology is a *.json of any name but config.json that holds a weightsManifest; its shards lie beside it. Exactly one model may lie in a folder.
 * Threads: any (no state).
 */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define MODEL_FILE_PATH_BYTES 4096u

/* NOT_FOUND where there is none, INVALID where there are several; the sentence says what was seen. */
enum pen_status model_file_find(const char *folder, char ret_path[MODEL_FILE_PATH_BYTES], struct pen_error *reterr);

/*
 * `hash` mixed with what changes when the model does: the file, and for a topology every other file of the folder and of its subfolders (shards).
 * Names, sizes, times and inodes are looked at, no content. Without a model it covers the whole folder.
 */
uint64_t model_file_stamp(const char *folder, uint64_t hash);

/* `hash` mixed with one file; unchanged when there is none. */
uint64_t model_file_stat_mix(uint64_t hash, const char *path);

#endif
