/*
 * layers.h - layers models: Keras layers called on tensors. A tensor is a value and its rank; most layers need no more of its shape.
 *
 * Absent fields have Keras' defaults as TF.js has them (recurrent_activation: hard_sigmoid).
 * Threads: one-at-a-time.
 */
#ifndef TFJS_LAYERS_H
#define TFJS_LAYERS_H

#include "import/tfjs/reader.h"

#define LAYERS_MAX        10000 /* of one model */
#define LAYER_TENSORS_MAX 256   /* inputs or outputs of one call */

struct ktensor {
    uint32_t value;
    int32_t rank;
    uint32_t mask; /* bool [batch, steps]: false = to be passed over by recurrent layers; VALUE_NONE = all count */
};

struct klayer {
    struct tfjs *r;
    struct build *b;
    const char *name; /* of the layer: its weights are found by it */
    const char *kind; /* class name */
    const cJSON *config;
    uint32_t depth;
    const struct klayer *outer; /* the model or wrapper that it lies in; NULL at the top */
    const char *wrapper;        /* whose name may stand for the layer's in its weights' names; NULL = none */
    const cJSON *kwargs;        /* of this call; NULL: none */
    const char *part;           /* of the layer, such as one of its cells; NULL = all */
    char place[100]; /* Keras 3: where its weights lie in what it lies in ("layers/dense_1"); "" = nowhere of its own */
    char part_place[100]; /* the same of its part */
};

/* One call of a layer: inputs to outputs. */
struct kcall {
    struct klayer *l;
    struct build *b;
    const struct ktensor *in;
    uint32_t in_count;
    struct ktensor out[LAYER_TENSORS_MAX];
    uint32_t out_count;
    int op; /* of the table's row */
};

typedef void (*layer_fn)(struct kcall *c);
struct layer_row {
    const char *kind;
    layer_fn call; /* NULL: not in this build */
    int op;
};
#define LAYER_ROW(kind, call, op)                                                                                      \
    {                                                                                                                  \
#kind, KEPT_IMPORT(tfjs, kind, call), op                                                                       \
    }
extern const struct layer_row layers_core[], layers_conv[], layers_norm[], layers_recurrent[], layers_scan[],
    layers_attend[];                                  /* end without a kind */
const struct layer_row *layer_row_at(uint32_t index); /* all rows one after the other; NULL behind the last */

/* layers_call.c */
void layer_call(struct kcall *c); /* by its kind */

/* layers_model.c */
void layer_model(struct kcall *c); /* a model as a layer */

/* layers_weight.c */
bool layer_is_model(const char *kind);
struct klayer layer_of(struct klayer *outer, const cJSON *json); /* from {class_name, config} */
bool layer_weights_placed(const struct weights *w);              /* named by place and number, as Keras 3 does it */
/* "dense_2" of the third Dense of a list: *count is how many of that kind came before. */
void layer_place(const char *front, const char *kind, uint32_t count, char *place, size_t room);
uint32_t layer_weight(struct kcall *c, const char *suffix); /* VALUE_NONE when there is none */
uint32_t layer_weight_needed(struct kcall *c, const char *suffix);
uint32_t layer_filled(struct kcall *c, int64_t count, float item);               /* a constant list */
const float *layer_floats(struct kcall *c, uint32_t value, uint32_t *ret_count); /* of a constant; NULL otherwise */

/* layers_core.c */
void layer_give(struct kcall *c, uint32_t value, int32_t rank);
uint32_t layer_activate(struct kcall *c, uint32_t x, const char *name); /* NULL: linear */
bool layer_named(const char *name, const char *plain);                  /* the same but for underscores and case */
const char *layer_activation(const struct kcall *c, const char *field);
bool layer_channels_first(const struct kcall *c);
/* The axes of a field counted from the front; how many, -1 when they make no sense. */
int layer_axes(const struct kcall *c, const char *field, int64_t def, int64_t *axes);

/* layers_conv.c */
struct tf_window;
void layer_window(struct kcall *c, uint32_t count, struct tf_window *ret);

#endif
