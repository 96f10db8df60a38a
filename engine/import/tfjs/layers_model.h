/*
 * layers_model.h - a model of layers while it is called: its layers, and the tensors that each of their calls gave.
 *
 * Threads: one-at-a-time.
 */
#ifndef TFJS_LAYERS_MODEL_H
#define TFJS_LAYERS_MODEL_H

#include "import/tfjs/layers.h"

/* A layer of a model, with the tensors of each of its calls. */
struct member {
    const cJSON *json;
    const char *name;
    struct call_out {
        struct ktensor *out;
        uint32_t count;
        bool done;
    } * calls;
    uint32_t call_count;
    uint32_t alike; /* layers of its kind before it */
    uint32_t first; /* index of its first call: a model counts its own making as call 0 */
};

struct model {
    struct klayer *l;
    struct member *members;
    uint32_t count;
    struct names names;
};

/* ---- layers_member.c ---- */

const cJSON *model_layers(const cJSON *config);        /* the list of a model's layers; NULL: the config has none */
bool model_init(struct model *m, const cJSON *layers); /* false after an error, which the build holds */
void model_fini(struct model *m);
struct kcall *kcall_new(struct klayer *l); /* free() it; NULL after an error */
const cJSON *kwargs_of(const cJSON *node); /* what a call is given by name; NULL: nothing */
void keep_out(struct model *m, struct call_out *to, const struct ktensor *out, uint32_t count);
void member_call(struct model *m, struct member *k, uint32_t call, const struct ktensor *in, uint32_t count);
struct ktensor input_make(struct build *b, const cJSON *config, const char *name); /* an input of the graph */

/* ---- layers_functional.c ---- */

const cJSON *ends_of(const cJSON *config, const char *field); /* a list of [name, call, tensor], or one of them */
uint32_t ends_count(const cJSON *ends);
const cJSON *end_at(const cJSON *ends, uint32_t index);
/* Calls all layers, each when its tensors are there. whole: the graph's inputs are made here. */
void functional(struct kcall *c, struct model *m, bool whole);

#endif
