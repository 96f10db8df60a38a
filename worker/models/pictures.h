/*
 * pictures.h - a model that takes the files of pictures for one of its inputs: its declared steps against its signature, and jobs' files into the network's numbers.
 *
 * A job sends either the plain tensor, or files: STRING [rows] with a file in each element, or uint8 [bytes], one file.
 * Threads: pictures_join one-at-a-time, before the model serves; the others any.
 */
#ifndef PICTURES_H
#define PICTURES_H

#include <stdatomic.h>

#include "served.h"

#define PICTURES_ROWS_MAX 1024u /* files in a job */

/* The input of a job that came as files, made ready for the network. */
struct pictures {
    struct digest model;      /* of the model whose steps made it */
    struct pen_tensor tensor; /* of the network's type and dims; data is owned */
    struct picture_map *maps; /* [rows] */
    uint32_t rows;
    uint64_t took_us;
    size_t bytes;               /* counted in *held */
    atomic_uint_fast64_t *held; /* bytes of all that are there; NULL: not counted */
    enum pen_status status;     /* not OK: why the files could not be used, the typed answer of the job */
    char text[PEN_ERROR_TEXT_BYTES];
};

/* Reads config.picture: sets served->files_input. INVALID, SHAPE, DTYPE or NOT_FOUND with a sentence when the steps do not fit the model. */
enum pen_status pictures_join(struct served *served, struct pen_error *reterr);

/* Does this tensor, of a job for input `index`, carry files? */
bool pictures_carried(const struct served *served, int index, const struct pen_tensor *tensor);

/* Decodes the files. held, limit: what all jobs may hold together (BUSY beyond). Never NULL but without memory: the result has the status. */
struct pictures *pictures_prepare(const struct served *served, const struct pen_tensor *files,
                                  atomic_uint_fast64_t *held, uint64_t limit, uint64_t now_us);
void pictures_free(struct pictures *pictures); /* NULL is fine */

#endif
