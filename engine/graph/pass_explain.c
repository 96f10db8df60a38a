#include "graph/pass_explain.h"

#include <stdio.h>
#include <string.h>

#include "graph/explain.h"

/* done: what it did, behind a number. none: why not, where it found nothing. stay: behind the number of nodes that it looked at and left; NULL = it looks at all. */
static const struct pass_text {
    const char *name, *done, *none, *stay;
} texts[PASS_COUNT] = {
    [PASS_PROMOTE] = {"promote", "values of 16 bits are computed in f32", "the model has no 16-bit floats", NULL},
    [PASS_QUANTISE] = {"quantise", "operators between floats made of bytes run on the bytes",
                       "the model has no QuantizeLinear",
                       "QuantizeLinear stay: what makes their input has no integer form, or other readers"},
    [PASS_BRANCH] = {"branch", "If took the branch of a constant condition", "the model has no If",
                     "If stay: their conditions are computed"},
    [PASS_UNROLL] = {"unroll", "Loop of a few turns became its turns", "the model has no Loop",
                     "Loop stay: all turns have the same shapes, or their number is not known, or they are many"},
    [PASS_DEAD] = {"dead", "nodes had no effect and are gone", "each node has an effect", NULL},
    [PASS_FOLD] = {"fold", "nodes were computed from constants", "no node has constants alone as inputs", NULL},
    [PASS_COMMON] = {"common", "nodes were the same as another", "no two nodes compute the same", NULL},
    [PASS_FORMULA] = {"formula", "formulas are an operator of their own now",
                      "no formula of Swish, HardSwish, Gelu, LayerNormalization or of an Einsum was found", NULL},
    [PASS_PAD] = {"pad", "Pad are part of the operator behind them", "the model has no Pad",
                  "Pad stay: no convolution or pool of their own can take them"},
    [PASS_BATCH_NORM] = {"batch_norm", "batch normalisations are in the weights of the operator before them",
                         "the model has no BatchNormalization",
                         "BatchNormalization stay: no product with constant weights makes their input for them alone"},
    [PASS_AFFINE] = {"affine", "factors or terms per channel are in the weights of the operator before them",
                     "no product is followed by a factor or term per channel", NULL},
    [PASS_GEMM] = {"gemm", "MatMul and the row added behind them are a Gemm",
                   "no MatMul of two matrices is followed by a constant row", NULL},
    [PASS_ACTIVATION] = {"activation", "activations are computed by the operator before them",
                         "the model has no activation that an operator could take",
                         "activations stay: no operator that could take them makes their input for them alone"},
    [PASS_LAYOUT] = {"layout", "nodes turned to NHWC", "no image of the model lies in NCHW",
                     "image nodes stay as they are: their rank or what is around them"},
    [PASS_SHUFFLE] = {"shuffle", "chains of Transpose and Reshape move their elements once",
                      "no chain of Transpose and Reshape moves its elements twice", NULL},
};

const char *pass_name(enum pass_id pass)
{
    return pass < PASS_COUNT ? texts[pass].name : "unknown";
}

enum pass_id pass_find(const char *name)
{
    for (unsigned i = 0; i < PASS_COUNT; i++) {
        if (strcmp(texts[i].name, name) == 0) {
            return (enum pass_id)i;
        }
    }
    return PASS_COUNT;
}

/* What pass_fuse may fuse into the operator before. */
static bool is_activation(enum op op)
{
    static const enum op ops[] = {OP_Relu, OP_Clip, OP_HardSwish, OP_LeakyRelu, OP_Sigmoid, OP_Tanh, OP_Swish};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (ops[i] == op) {
            return true;
        }
    }
    return false;
}

static bool is_image(const struct node *n)
{
    static const enum op ops[] = {OP_Conv,        OP_ConvTranspose, OP_MaxPool,
                                  OP_AveragePool, OP_QLinearConv,   OP_ConvInteger};
    bool found = false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        found = found || ops[i] == n->op;
    }
    return found && node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NCHW;
}

void pass_count(const struct graph *g, struct pass_census *ret_census)
{
    *ret_census = (struct pass_census){{0}};
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (!n->dead) {
            ret_census->nodes[PASS_QUANTISE] += n->op == OP_QuantizeLinear;
            ret_census->nodes[PASS_BRANCH] += n->op == OP_If;
            ret_census->nodes[PASS_UNROLL] += n->op == OP_Loop;
            ret_census->nodes[PASS_PAD] += n->op == OP_Pad;
            ret_census->nodes[PASS_BATCH_NORM] += n->op == OP_BatchNormalization;
            ret_census->nodes[PASS_ACTIVATION] += is_activation(n->op);
            ret_census->nodes[PASS_LAYOUT] += is_image(n);
        }
    }
}

static uint32_t done_of(const struct pass_report *r, enum pass_id pass, const struct pass_census *before,
                        const struct pass_census *after)
{
    const uint32_t done[PASS_COUNT] = {
        [PASS_QUANTISE] = r->quantised,
        [PASS_BRANCH] = r->branches,
        [PASS_UNROLL] = r->unrolled,
        [PASS_DEAD] = r->dead,
        [PASS_FOLD] = r->folded,
        [PASS_COMMON] = r->common,
        [PASS_FORMULA] = r->formulas,
        [PASS_PAD] = r->pads,
        [PASS_BATCH_NORM] = r->batch_norms,
        [PASS_AFFINE] = r->affines,
        [PASS_GEMM] = r->gemms,
        [PASS_ACTIVATION] = r->activations,
        [PASS_LAYOUT] = before->nodes[PASS_LAYOUT] > after->nodes[PASS_LAYOUT]
                            ? before->nodes[PASS_LAYOUT] - after->nodes[PASS_LAYOUT]
                            : 0,
        [PASS_SHUFFLE] = r->shuffles,
    };
    return done[pass];
}

/* It was not to run: why. NULL: it was. */
static const char *kept_out(const struct pass_options *options, enum pass_id pass)
{
    bool folds =
        pass == PASS_DEAD || pass == PASS_FOLD || pass == PASS_COMMON || pass == PASS_BRANCH || pass == PASS_UNROLL;
    if ((options->off & 1u << pass) != 0) {
        return "it was left out by name";
    }
    if (pass == PASS_LAYOUT) {
        return options->nhwc ? NULL : "the backend runs images as they lie";
    }
    return (folds ? options->fold : options->fuse) ? NULL : "passes are off";
}

void pass_explain(const struct graph *g, const struct pass_options *options, const struct pass_census *before,
                  const struct pass_report *report)
{
    struct pen_explain *log = explain_of(g);
    struct pass_census after;
    if (log == NULL) {
        return;
    }
    pass_count(g, &after);
    for (unsigned p = PASS_PROMOTE + 1; p < PASS_COUNT; p++) {
        const struct pass_text *t = &texts[p];
        const char *why = kept_out(options, (enum pass_id)p);
        uint32_t done = done_of(report, (enum pass_id)p, before, &after), stay = after.nodes[p];
        char left[160] = "";
        if (stay > 0 && t->stay != NULL) {
            snprintf(left, sizeof left, "%s%u %s", done > 0 ? "; " : "", stay, t->stay);
        }
        if (why != NULL) {
            explain_say(log, PEN_CHOICE_PASS, t->name, "left out", "%s", why);
        } else if (done > 0) {
            explain_say(log, PEN_CHOICE_PASS, t->name, "fired", "%u %s%s", done, t->done, left);
        } else {
            explain_say(log, PEN_CHOICE_PASS, t->name, "did not fire", "%s", left[0] != '\0' ? left : t->none);
        }
    }
}

void pass_explain_promote(const struct graph *g, uint32_t off, uint32_t promoted)
{
    struct pen_explain *log = explain_of(g);
    const struct pass_text *t = &texts[PASS_PROMOTE];
    if ((off & 1u << PASS_PROMOTE) != 0) {
        explain_say(log, PEN_CHOICE_PASS, t->name, "left out", "it was left out by name");
    } else if (promoted > 0) {
        explain_say(log, PEN_CHOICE_PASS, t->name, "fired", "%u %s", promoted, t->done);
    } else if (g->narrow != NULL) {
        explain_say(log, PEN_CHOICE_PASS, t->name, "did not fire",
                    "16-bit floats stay as they are, rounded after every node: %s cannot be widened", g->narrow);
    } else {
        explain_say(log, PEN_CHOICE_PASS, t->name, "did not fire", "%s", t->none);
    }
}
