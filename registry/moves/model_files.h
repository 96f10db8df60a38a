/*
 * model_files.h - the files of one version in a folder of a model, with their digests.
 *
 * Threads: any.
 */
#ifndef MODEL_FILES_H
#define MODEL_FILES_H

#include "disk.h"
#include "manifest.h"

/* Where a file of the manifest lies; in its order. */
struct model_files {
    struct manifest manifest;
    char model[DISK_PATH_BYTES], version[DISK_PATH_BYTES]; /* folders; model "": the version's folder stands alone */
};

/*
 * folder: NAME/, of which the highest version is taken, or NAME/VERSION/. name and version: what they are called in the
 * manifest; NULL and 0 = as the folder says. Reads every file once.
 * NOT_FOUND: there is no version, or it has no file.
 */
enum pen_status model_files_read(const char *folder, const char *name, uint64_t version, struct model_files *ret_files,
                                 struct pen_error *reterr);
void model_files_fini(struct model_files *files);

/* Opens the file of that number; it must still have the manifest's size. -1: the sentence is in *reterr. */
int model_files_open(const struct model_files *files, size_t index, struct pen_error *reterr);

#endif
