/*
 * model_file.h - which file of a version folder is the model: model.onnx, model.tflite, or a TensorFlow.js topology.
 *
 * A topology is a *.json of any name but config.json that holds a weightsManifest; its shards lie beside it. Exactly one model may lie in a folder.
 * Threads: any (no state).
 */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define MODEL_FILE_PATH_BYTES 4096u

/* NOT_FOUND where there is none, INVALID where there are several; the sentence says what was seen. */
enum pen_status model_file_find(const char *folder, char ret_path[MODEL_FILE_PATH_BYTES], struct pen_error *reterr);

/* The model's folder, of a file in one of its versions: models/digits of models/digits/1/model.onnx. */
void model_file_home(const char *path, char ret_folder[MODEL_FILE_PATH_BYTES]);

/* Opens a file of a version's folder; links lead to files beneath that folder or the model's (penstock/model_folder.h). */
enum pen_status model_file_open(const char *path, int *ret_fd, size_t *ret_bytes, struct pen_error *reterr);

/*
 * Changes when the model does: the file, and unless it is a TFLite model every other file of the folder and of its subfolders that counts
 * (shards, external data). Names, sizes, times, inodes and permissions are looked at, no content. Without a model it covers the whole folder.
 */
uint64_t model_file_stamp(const char *folder);

/* A model file by its name's end, or by what it holds: for files that lie where no model may. */
bool model_file_alone(const char *path);

/* False for config.json, which is looked at by what it says, and for hidden files, *.md, *.txt and *.log: they are no part of a model. */
bool model_file_counts(const char *name);

#endif
