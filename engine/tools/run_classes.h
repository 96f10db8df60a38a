/*
 * run_classes.h - what `run` says of a classifier's answer: its best classes, with the names of a labels file.
 *
 * Threads: any.
 */
#ifndef RUN_CLASSES_H
#define RUN_CLASSES_H

#include <cjson/cJSON.h>

#include "run/rt_arena.h"

/* Names of classes, one a line or output.labels of a config.json; texts in arena memory. */
struct class_names {
    const char **names;
    size_t count;
};

/* path "": no names. */
enum pen_status class_names_read(const char *path, struct rt_arena *arena, struct class_names *ret,
                                 struct pen_error *reterr);

/*
 * The `top` best classes of each row of the first output that has as many as there are names, or any without names: lines on stdout, or objects {output, row, index,
 * score, label} in `list` (NULL: lines). SHAPE when there are names and no output has so many classes.
 */
enum pen_status classes_show(const struct pen_tensor *outputs, size_t count, const struct class_names *names,
                             size_t top, cJSON *list, struct pen_error *reterr);

#endif
