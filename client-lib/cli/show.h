/*
 * show.h - a result for people and for programs.
 *
 * Threads: owner.
 */
#ifndef SHOW_H
#define SHOW_H

#include <cjson/cJSON.h>

#include "labels.h"
#include "penstock/client.h"

#define SHOW_TOP_MAX 1000

struct show {
    struct label_names names; /* of the model's classes */
    size_t top;               /* classes to show */
    const char *output_dir;   /* NULL: write no files */
};

/* To stdout. `what`: the file it answers. */
void show_text(const struct show *show, const char *what, const char *job_id, const pen_result *result);

/* The best classes, one a line; returns how many. And the same as a list of {label, index, score, row}. */
size_t show_labels(const struct show *show, const pen_result *result);
cJSON *show_labels_json(const struct show *show, const pen_result *result);

/* One output: a line with its first values, and {name, dtype, dims, values} with all values where they are at most 1024. Texts that are no UTF-8 are shown with
 * '?' for each byte that is none. */
void show_output(const struct pen_tensor *t);
cJSON *show_output_json(const struct pen_tensor *t);

/* An object of its own, for the list "jobs"; keys: penstock submit --help. */
cJSON *show_json(const struct show *show, const char *what, const char *job_id, const pen_result *result);

/* Why a job ran where it did: lines on stdout, or an object (keys: penstock explain --help). */
void show_explanation(const struct pen_explanation *e);
cJSON *show_explanation_json(const struct pen_explanation *e);

/* Writes the outputs as OUTPUT_DIR/<stem>.<output>.npy; the stem is the file's name without folders and extension. */
enum pen_status show_save(const struct show *show, const char *what, const pen_result *result,
                          struct pen_error *reterr);

/* True: two of the files have one stem, so that the outputs of the second would take the place of the first one's. */
bool show_clash(const char *const *files, size_t count, const char *ret_pair[2]);

#endif
