/*
 * labels.h - the best classes of a classifier's answer: as the worker told them, or, of one that knows nothing of that, read out of the outputs here.
 *
 * Threads: any (no state).
 */
#ifndef LABELS_H
#define LABELS_H

#include "classes.h"
#include "penstock/client.h"

struct label {
    uint32_t row; /* of a batch */
    size_t index;
    double score;     /* 0..1 */
    const char *text; /* "" = the model gives it no name */
};

/* What to read out of outputs that come without classes. */
struct label_names {
    const char *const *names; /* the model's; lives as long as the labels */
    size_t count;
    bool any; /* without names: of any classifier's output */
};

/*
 * The `top` best classes of each row of an output that has one number per name (with `any` and no names: of any classifier's output), at most `room` in all; an output
 * whose numbers do not lie within 0..1 goes through softmax. Returns how many; 0: it is no such output.
 */
size_t labels_of(const struct pen_tensor *output, const struct label_names *names, size_t top, size_t room,
                 struct label *ret_labels);

/* Those that the worker told; without them, those of the first output that fits. */
size_t labels_top(const pen_result *result, const struct label_names *names, size_t top, size_t room,
                  struct label *ret_labels);

/* "nine", "class 9", and in front of it "row 3: " when the labels are of several rows. Returns `text`. */
#define LABEL_TEXT_BYTES 320u
const char *label_text(const struct label *labels, size_t count, size_t index, char text[LABEL_TEXT_BYTES]);

#endif
