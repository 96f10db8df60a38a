/*
 * parts.h - the parts of an answer: the list of compiled steps, and what a row is while the steps work on it.
 *
 * Threads: steps are immutable once compiled; a row belongs to one thread.
 */
#ifndef ANSWER_PARTS_H
#define ANSWER_PARTS_H

#include <cjson/cJSON.h>

#include "answer.h"
#include "arena.h"

#define ANSWER_STEPS_MAX        16u
#define ANSWER_TENSORS_MAX      64u    /* a model's outputs; the wire's own limit */
#define ANSWER_SOURCES_MAX      8u     /* outputs that one step joins */
#define ANSWER_NUMBERS_MAX      64u    /* of one list in the file */
#define ANSWER_ANCHORS_MAX      65536u /* boxes that a network may propose */
#define ANSWER_CANDIDATES_MAX   16384u /* objects before suppression */
#define ANSWER_OBJECTS_MAX      1000u  /* objects of a row in the end */
#define ANSWER_CLASSES_MAX      1000u  /* best classes of a row */
#define ANSWER_POINTS_MAX       2048u  /* of one object, or of one picture */
#define ANSWER_NAMES_MAX        64u
#define ANSWER_NAME_BYTES       32u
#define ANSWER_LINES_MAX        128u
#define ANSWER_PIXELS_MAX       (100u * 1000u * 1000u) /* of a mask */
#define ANSWER_COEFFICIENTS_MAX 256u                   /* of an object's mask */
#define ANSWER_INSTANCES_MAX    254u                   /* objects in one mask */
#define ANSWER_POINT_VALUES     3u                     /* x, y and a third number */

/* Outputs that a step reads, by their place in the model. */
struct answer_sources {
    uint32_t count;
    uint32_t output[ANSWER_SOURCES_MAX];
};

struct answer_numbers {
    uint32_t count;
    double value[ANSWER_NUMBERS_MAX];
};

enum answer_activation { ANSWER_AS_IS, ANSWER_SIGMOID, ANSWER_SOFTMAX };
#define ANSWER_ACTIVATIONS "none|sigmoid|softmax"

/* ---- steps ---- */

struct step_activate {
    struct answer_sources from;
    double axis; /* softmax: from the end, -1 = the last dimension */
};

struct step_top {
    struct answer_sources from;
    uint32_t k, activation;
};

/* An anchor or a grid's cell, in input pixels. */
struct answer_anchor {
    float x, y, width, height;
};

enum box_form { BOX_PLAIN, BOX_SSD, BOX_BLAZEFACE, BOX_DISTANCE, BOX_YOLOV3, BOX_YOLOV5, BOX_YOLOV8, BOX_YOLOX };
enum box_order { ORDER_LTRB, ORDER_TLBR, ORDER_CXCYWH, ORDER_CYCXHW, ORDER_LTWH };

struct box_head { /* of yolov3 and yolov5 */
    uint32_t output, anchors_count, grid_height, grid_width;
    float stride;
    bool channels_last;
    struct answer_anchor anchors[ANSWER_SOURCES_MAX];
};

struct step_boxes {
    uint32_t form, order, activation, objectness_activation;
    struct answer_sources boxes, scores, objectness, class_ids, points;
    uint32_t boxes_at, scores_at, points_at, classes, points_count, bins, candidates;
    uint32_t objectness_at; /* UINT32_MAX = there is none */
    uint32_t class_ids_at;
    uint32_t coefficients, coefficients_at, angle_at; /* columns; NOT_GIVEN: the last ones */
    bool channels_first, normalized, background, multi_label, points_yx, points_scored, turned;
    double score, limit;
    double centre; /* of a cell of strides, in cells; negative = that of the form */
    struct answer_numbers variances, strides;
    struct answer_anchor *anchors; /* [anchors_count]; owned */
    uint32_t anchors_count;
    struct box_head heads[ANSWER_SOURCES_MAX];
    uint32_t heads_count;
};

enum points_from { POINTS_FROM_CENTRE, POINTS_FROM_BOX };
struct step_centernet {
    struct answer_sources heat, size, offset, points;
    uint32_t activation, candidates, points_count, points_from;
    bool channels_first, yx, exponential;
    double stride, score, centre;
};

enum nms_kind { NMS_HARD, NMS_LINEAR, NMS_GAUSSIAN, NMS_WEIGHTED };
struct step_nms {
    uint32_t kind, max;
    bool per_class, turned;
    double iou, sigma, score;
};

struct step_points {
    struct answer_sources from, presence;
    uint32_t values, presence_activation;
    bool yx, normalized, scored;
    double score;
};

struct answer_line {
    uint32_t from, to;
};

struct step_poses {
    struct answer_sources heat, offsets, forward, backward;
    struct answer_line edges[ANSWER_LINES_MAX]; /* of the tree along which displacements lead */
    uint32_t edges_count, max, activation, refine;
    bool single;
    double stride, score, point_score, radius;
};

enum mask_size { MASK_PICTURE, MASK_MODEL };
struct step_mask {
    struct answer_sources from, where;
    uint32_t activation, where_activation, size, channel;
    bool argmax, given, instances, channels_first, corners, nearest, png; /* given: the numbers are classes */
    double threshold, where_threshold;
};

struct answer_step;
struct answer_row;
typedef enum pen_status answer_stepper(const struct answer *answer, const struct answer_step *step,
                                       struct answer_row *row, struct pen_error *reterr);

struct answer_step {
    uint32_t number; /* its place in the file, from 0 */
    const struct answer_kind *kind;
    union {
        struct step_activate activate;
        struct step_top top;
        struct step_boxes boxes;
        struct step_centernet centernet;
        struct step_nms nms;
        struct step_points points;
        struct step_poses poses;
        struct step_mask mask;
    };
};

enum answer_produce {
    ANSWER_CLASSES = 1,
    ANSWER_OBJECTS = 2,
    ANSWER_POINTS = 4,
    ANSWER_MASK = 8,
};

struct answer {
    struct pen_tensor *model_outputs; /* [model_outputs_count]; names and dims as at load; owned with their names */
    size_t model_outputs_count;
    struct classes_quant quants[ANSWER_TENSORS_MAX];
    uint64_t read; /* bit i: a step reads output i */
    uint32_t height, width;
    bool batched, json, clip;
    char *const *labels;
    size_t labels_count;
    struct answer_step steps[ANSWER_STEPS_MAX];
    size_t steps_count;
    unsigned produces; /* of enum answer_produce */
    uint32_t classes_max, objects_max, points_count, coefficients;
    bool mask_png, turned, instances;                /* objects have an angle; the mask has the numbers of objects */
    char names[ANSWER_NAMES_MAX][ANSWER_NAME_BYTES]; /* of points */
    uint32_t names_count;
    struct answer_line skeleton[ANSWER_LINES_MAX]; /* between points, for those who draw */
    uint32_t skeleton_count;
    struct pen_tensor outputs[ANSWER_OUTPUTS_MAX];
    size_t outputs_count;
};

/* ---- a row ---- */

/* One row of an output as floats, without the batch. */
struct answer_view {
    float *data; /* NULL: not read by any step */
    bool own;    /* data may be written: it is no part of the model's output */
    uint32_t rank;
    int64_t dims[PEN_MAX_RANK];
    size_t count;
};

struct answer_object {
    float box[4]; /* left, top, right, bottom */
    float score;
    int32_t class;
    float *points;             /* [points_count][ANSWER_POINT_VALUES]; NULL = none */
    const float *coefficients; /* [coefficients] of its mask; NULL = none */
    float angle; /* of a turned box: radians around its middle, from x towards y; the box is the one before the turn */
    float corners
        [8]; /* of a turned box in the picture: x and y of what were left top, right top, right bottom, left bottom */
};

struct answer_row {
    struct answer_work *work;
    const struct answer_map *map; /* NULL = none */
    struct answer_view views[ANSWER_TENSORS_MAX];
    struct class_score *classes;
    size_t classes_count;
    struct answer_object *objects;
    size_t objects_count;
    float *points; /* [points_count][ANSWER_POINT_VALUES]; NULL = nobody is there */
    float points_score;
    uint8_t *mask; /* [mask_height][mask_width] */
    uint32_t mask_height, mask_width;
};

/* A text that grows up to a limit. */
struct answer_text {
    char *bytes;
    size_t used, room;
    enum pen_status cut; /* why something is not in it: TOO_LARGE, NO_MEMORY; OK = it is whole */
};

struct answer_work {
    struct arena scratch, kept; /* of the present row; of the run */
    struct answer_text text;    /* texts of all rows, each behind its length */
};

/* The sentence and status of memory that was not given: there was none, or it is beyond ANSWER_BYTES_MAX. */
enum pen_status answer_lacks(bool starved, struct pen_error *reterr);
/* Scratch memory of a row; NULL with a sentence, and row_short() is the status. */
void *row_take(struct answer_row *row, size_t count, size_t size, struct pen_error *reterr);
/* Why there was none: TOO_LARGE, or NO_MEMORY. */
enum pen_status row_short(const struct answer_row *row);
/* The view of a step's only source. */
const struct answer_view *row_view(const struct answer_row *row, const struct answer_sources *from);

/* ---- reading the file ---- */

struct answer_reader {
    struct answer *answer;
    struct answer_step *step;
    const char *path;
    struct pen_error *reterr;
};

enum answer_option_type {
    OPTION_FLAG,
    OPTION_WHOLE,
    OPTION_NUMBER,
    OPTION_NUMBERS,
    OPTION_CHOICE,
    OPTION_SOURCE, /* one output */
    OPTION_SOURCES,
    OPTION_READER, /* a function of its own */
};
typedef enum pen_status answer_option_reader(struct answer_reader *reader, const cJSON *value, const char *path);

/* A key of a step (or of the whole): what it takes, and where in the struct it goes. */
struct answer_option {
    const char *name;
    enum answer_option_type type;
    size_t offset;
    double min, max;
    const char *choices; /* "a|b" */
    answer_option_reader *read;
    bool needed;
};

/* A kind of step. */
struct answer_kind {
    const char *name;
    const struct answer_option *options;
    void (*defaults)(struct answer_step *step);
    enum pen_status (*compile)(struct answer_reader *reader, struct answer_step *step); /* checks; NULL = nothing */
    answer_stepper *run;
    unsigned produces;
};

/* Reads the object's keys by the table into `target`; `skip` is a key that was read already. */
enum pen_status options_read(struct answer_reader *reader, const cJSON *object, const struct answer_option *options,
                             void *target, const char *skip);
/* "answer.steps[2] (nms): ..." and the sentence. */
enum pen_status reader_refuse(const struct answer_reader *reader, enum pen_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Names of points and lines between them. */
enum pen_status read_names(struct answer_reader *reader, const cJSON *value, const char *path);
enum pen_status read_lines(struct answer_reader *reader, const cJSON *value, const char *path,
                           struct answer_line lines[ANSWER_LINES_MAX], uint32_t *ret_count);
/* An array of numbers within a range. */
enum pen_status read_numbers(const struct answer_reader *reader, const cJSON *value, const char *path, double min,
                             double max, struct answer_numbers *ret_numbers);
/* Index of the model's output with that name; NOT_FOUND with the names of those there are. */
enum pen_status read_output(struct answer_reader *reader, const cJSON *value, const char *path, uint32_t *ret_output);
/* The input's size must be known: "size" is the key that tells it. */
enum pen_status reader_needs_size(const struct answer_reader *reader);
/* At load: the number of dims of an output must be within the range (the batch counts), where it is known. */
enum pen_status reader_needs_rank(const struct answer_reader *reader, uint32_t output, uint32_t least, uint32_t most);

extern const struct answer_kind kind_softmax, kind_sigmoid, kind_top_k, kind_boxes, kind_centernet, kind_nms,
    kind_points, kind_poses, kind_mask;

/* ---- anchors.c ---- */

/* "anchors" of a boxes step: layers of a grid with boxes, or the options from which they are generated. */
answer_option_reader read_anchors;
/* Cells of the strides' grids, row by row; the anchor lies `at` cells into its cell (0.5 = its middle) and is a cell large. */
enum pen_status anchors_of_strides(struct answer_reader *reader, struct step_boxes *boxes, double at);

/* ---- shared by steps ---- */

float answer_sigmoid(float x);
/* Softmax of `count` numbers `step` apart, in place or not. */
void answer_softmax(const float *from, float *to, size_t count, size_t step);
/* Objects by score, the best first; equal ones stay in their order. Cuts them to `most`. */
void objects_sort(struct answer_row *row, size_t most);
/* "as_is", sigmoid of one number; softmax is done by the caller. */
float answer_activate(float x, uint32_t activation);

/* turned.c: the corners of a turned box, and the area that two of them share over that of both together. */
void turned_corners(const struct answer_object *object, float ret_corners[8]);
float turned_overlap(const struct answer_object *a, const struct answer_object *b);

/* ---- what comes out ---- */

/* The row's mask; the bytes are scratch memory. */
enum pen_status mask_png(const struct answer_row *row, uint8_t **ret_bytes, size_t *ret_size, struct pen_error *reterr);
/* The row as JSON, behind its length of 4 bytes. */
enum pen_status json_write(const struct answer *answer, struct answer_row *row, struct pen_error *reterr);
void text_add(struct answer_text *text, const void *bytes, size_t count);
/* Sets up the signature of the outputs. */
void pack_outputs(struct answer *answer);
/* Memory for the tensors of `rows` rows, zeros; then each row into its place. */
enum pen_status pack_open(const struct answer *answer, struct answer_work *work, uint32_t rows,
                          struct pen_tensor *ret_outputs, struct pen_error *reterr);
enum pen_status pack_row(const struct answer *answer, struct answer_row *row, uint32_t index, uint32_t rows,
                         struct pen_tensor *outputs, struct pen_error *reterr);
void pack_close(const struct answer *answer, struct answer_work *work, struct pen_tensor *outputs);

#endif
