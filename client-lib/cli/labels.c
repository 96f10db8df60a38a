#include "labels.h"

#include <stdio.h>
#include <stdlib.h>

static size_t row_labels(const struct pen_tensor *t, uint32_t row, size_t classes, const struct label_names *names,
                         size_t most, struct label *to)
{
    struct class_score *best = calloc(most ? most : 1, sizeof *best);
    size_t count = best ? classes_best(t, row * classes, classes, CLASSES_AUTO, NULL, most, best) : 0;
    for (size_t i = 0; i < count; i++) {
        to[i] = (struct label){row, best[i].index, best[i].score, names->count ? names->names[best[i].index] : ""};
    }
    free(best);
    return count;
}

size_t labels_of(const struct pen_tensor *t, const struct label_names *names, size_t top, size_t room,
                 struct label *ret_labels)
{
    size_t used = 0, classes = classes_count(t, classes_rows(t), names->count);
    if (names->count ? classes != names->count : !names->any) {
        return 0;
    }
    for (uint32_t row = 0; classes && row < classes_rows(t) && used < room; row++) {
        used += row_labels(t, row, classes, names, top < room - used ? top : room - used, ret_labels + used);
    }
    return used;
}

static size_t labels_told(const pen_result *result, size_t top, size_t room, struct label *to)
{
    size_t used = 0;
    for (size_t i = 0; i < pen_result_annotations(result); i++) {
        const struct pen_annotation *a = pen_result_annotation(result, i);
        for (size_t k = 0; k < a->classes_count && k < top && used < room; k++) {
            const struct pen_class *c = &a->classes[k];
            to[used++] = (struct label){a->row, c->index, (double)c->score, c->name};
        }
    }
    return used;
}

size_t labels_top(const pen_result *result, const struct label_names *names, size_t top, size_t room,
                  struct label *ret_labels)
{
    size_t used = labels_told(result, top, room, ret_labels);
    for (size_t i = 0; used == 0 && i < pen_result_outputs(result); i++) {
        used = labels_of(pen_result_output(result, i), names, top, room, ret_labels);
    }
    return used;
}

const char *label_text(const struct label *labels, size_t count, size_t index, char text[LABEL_TEXT_BYTES])
{
    const struct label *l = &labels[index];
    char row[32] = "", number[32];
    if (labels[count - 1].row != labels[0].row) {
        snprintf(row, sizeof row, "row %u: ", l->row);
    }
    snprintf(number, sizeof number, "class %zu", l->index);
    snprintf(text, LABEL_TEXT_BYTES, "%s%s", row, *l->text ? l->text : number);
    return text;
}
