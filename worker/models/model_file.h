/*
 * model_file.h - finds the model file of a version's folder: model.onnx, model.tflite, or a TensorFlow.js topology.
 *
 * A topology is a *.json of any name but config.json that holds a weightsManifest; its shards lie beside it. Exactly
 * one model may lie in a folder.
 * Threads: any (no state).
 */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define MODEL_FILE_PATH_BYTES 4096u

/* NOT_FOUND when there is none, INVALID when there are several; the sentence lists what was found. */
enum pen_status model_file_find(const char *folder, char ret_path[MODEL_FILE_PATH_BYTES], struct pen_error *reterr);

/* The model's folder, of a file in one of its versions: models/digits of models/digits/1/model.onnx. */
void model_file_home(const char *path, char ret_folder[MODEL_FILE_PATH_BYTES]);

/* Opens a file of a version's folder; links lead to files beneath that folder or the model's (penstock/model_folder.h). */
enum pen_status model_file_open(const char *path, int *ret_fd, size_t *ret_bytes, struct pen_error *reterr);

/*
 * A number that changes when the model changes. It covers the model file and, except for a TFLite model, every file of
 * the folder and its subfolders that counts (shards, external data): names, sizes, times, inodes and permissions, no
 * content. Without a model file it covers the whole folder.
 */
uint64_t model_file_stamp(const char *folder);

/* True when the file is a model by its suffix or its content; for files in places where no model may be. */
bool model_file_alone(const char *path);

/* False for config.json (its parsed content is compared instead), hidden files, *.md, *.txt and *.log: they are no
   part of a model. */
bool model_file_counts(const char *name);

#endif
