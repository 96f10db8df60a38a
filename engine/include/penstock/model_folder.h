/*
 * penstock/model_folder.h - how every file of a model's folder is opened: by the engine, and by programs that read what lies beside a model.
 *
 * Never through a link that leads out of the folder, regular files only, and without ever waiting: a pipe in a folder of models must stop nobody.
 * Threads: any.
 */
#ifndef PENSTOCK_MODEL_FOLDER_H
#define PENSTOCK_MODEL_FOLDER_H

#include <stddef.h>

#include "penstock/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Opens folder/name for reading; the caller closes *ret_fd. Links are followed as long as what they lead to lies beneath `folder` or beneath `also` (NULL = no
 * other; "/" = anywhere). Both may be links themselves. PEN_ERR_NOT_FOUND: there is no such name. PEN_ERR_IO: a link out of the folder or to nowhere, no regular
 * file, no permission; the sentence says which. ret_bytes (may be NULL): of the file.
 */
enum pen_status pen_model_folder_open(const char *folder, const char *name, const char *also, int *ret_fd,
                                      size_t *ret_bytes, struct pen_error *reterr);

/* The same for names that a model states itself, of data beside it: no link below `folder` is followed at all, and `name` has no ".." and is no absolute path. */
enum pen_status pen_model_folder_open_plain(const char *folder, const char *name, int *ret_fd, size_t *ret_bytes,
                                            struct pen_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
