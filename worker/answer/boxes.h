/*
 * boxes.h - the parts of a boxes step: which numbers of which outputs are a proposal's (box_parts.c), and the box that they say (box_forms.c).
 *
 * Threads: one-at-a-time.
 */
#ifndef ANSWER_BOXES_H
#define ANSWER_BOXES_H

#include "matrix.h"

#define BOX_PARTS_MAX (ANSWER_SOURCES_MAX * ANSWER_SOURCES_MAX)

/* Proposals that lie together: those of one output, or of one anchor of a head. */
struct box_part {
    struct matrix boxes, scores, objectness, class_ids, points;
    uint32_t first;                     /* its first anchor */
    uint32_t classes;                   /* columns of scores */
    uint32_t coefficients_at, angle_at; /* columns of boxes, where the step has such */
    const struct box_head *head;        /* NULL = none */
    uint32_t anchor;                    /* of the head */
};

/*
 * Finds the parts, and checks that shapes suit the step (SHAPE). views: their data is not looked at, so that shapes can be checked at load.
 */
enum pen_status box_parts_open(const struct answer *answer, const struct step_boxes *step,
                               const struct answer_view *views, struct box_part ret_parts[BOX_PARTS_MAX],
                               size_t *ret_count, struct pen_error *reterr);

/* Box (left, top, right, bottom) and points of a proposal, in input pixels. */
void box_decode(const struct answer *answer, const struct step_boxes *step, const struct box_part *part, size_t row,
                struct answer_object *object);

/* Presets of the form for what the file does not say, and what the form needs. */
enum pen_status boxes_compile(struct answer_reader *reader, struct answer_step *step);
answer_option_reader read_heads;

#endif
