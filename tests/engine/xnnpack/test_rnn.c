#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

static void check(enum op op, int64_t steps, int64_t batch, int64_t inputs, int64_t hidden, const char *direction,
                  int form)
{
    int64_t gates = op == OP_LSTM ? 4 : 3, directions = direction[0] == 'b' ? 2 : 1;
    struct cross *c = cross_new(op);
    cross_input(c, F32, 3, (int64_t[]){steps, batch, inputs}, false);
    cross_range(c, -0.4f, 0.4f);
    cross_input(c, F32, 3, (int64_t[]){directions, gates * hidden, inputs}, true);
    cross_input(c, F32, 3, (int64_t[]){directions, gates * hidden, hidden}, true);
    if (form & 1) {
        cross_input(c, F32, 2, (int64_t[]){directions, 2 * gates * hidden}, true);
    }
    if (form & 2) {
        if (!(form & 1)) {
            cross_omit(c);
        }
        cross_omit(c);
        cross_input(c, F32, 3, (int64_t[]){directions, batch, hidden}, false);
        if (op == OP_LSTM) {
            cross_input(c, F32, 3, (int64_t[]){directions, batch, hidden}, false);
        }
    }
    cross_outputs(c, op == OP_LSTM ? 3 : 2);
    cross_int(c, ATTR_hidden_size, hidden);
    cross_text(c, ATTR_direction, direction);
    if (op == OP_GRU) {
        cross_int(c, ATTR_linear_before_reset, form >> 2 & 1);
    }
    cross_check(c);
}

Test(xnnpack_rnn, directions_states_and_biases)
{
    const char *directions[] = {"forward", "reverse", "bidirectional"};
    for (int i = 0; i < 24; i++) {
        check(i % 2 ? OP_GRU : OP_LSTM, 5, 1 + i % 3, 7, 19, directions[i % 3], i / 3);
    }
}

Test(xnnpack_rnn, large_enough_for_threads)
{
    check(OP_LSTM, 3, 16, 100, 130, "forward", 1);
    check(OP_GRU, 3, 16, 100, 260, "bidirectional", 5);
}

/* What the blocked products leave out: computed weights, lengths, peepholes, clips, batch first, other activations, plain RNN. */
static void any_check(enum op op, int form)
{
    int64_t gates = op == OP_LSTM ? 4 : op == OP_GRU ? 3 : 1, steps = 5, batch = 3, inputs = 6, hidden = 11;
    int64_t directions = form & 1 ? 2 : 1;
    bool first = form & 2;
    struct cross *c = cross_new(op);
    cross_input(c, F32, 3, first ? (int64_t[]){batch, steps, inputs} : (int64_t[]){steps, batch, inputs}, false);
    cross_range(c, -0.5f, 0.5f);
    cross_input(c, F32, 3, (int64_t[]){directions, gates * hidden, inputs}, form & 4);
    cross_input(c, F32, 3, (int64_t[]){directions, gates * hidden, hidden}, false);
    cross_input(c, F32, 2, (int64_t[]){directions, 2 * gates * hidden}, false);
    if (form & 8) {
        cross_data(c, PEN_DTYPE_I32, 1, &batch, (int32_t[]){5, 0, 2}, false);
    } else {
        cross_omit(c);
    }
    const int64_t states[2][3] = {{directions, batch, hidden}, {batch, directions, hidden}};
    cross_input(c, F32, 3, states[first], false);
    if (op == OP_LSTM) {
        cross_input(c, F32, 3, states[first], false);
        cross_input(c, F32, 2, (int64_t[]){directions, 3 * hidden}, false);
        cross_float(c, ATTR_cell_clip, 0.4f);
        cross_int(c, ATTR_input_forget, form >> 2 & 1);
    }
    cross_outputs(c, op == OP_LSTM ? 3 : 2);
    cross_int(c, ATTR_hidden_size, hidden);
    cross_int(c, ATTR_layout, first);
    cross_int(c, ATTR_linear_before_reset, form >> 3 & 1);
    cross_float(c, ATTR_clip, form & 1 ? 0.7f : 0.0f);
    cross_text(c, ATTR_direction, directions == 2 ? "bidirectional" : form & 4 ? "reverse" : "forward");
    cross_check(c);
}

Test(xnnpack_rnn, every_other_form)
{
    for (int form = 0; form < 16; form++) {
        any_check(OP_RNN, form);
        any_check(OP_GRU, form);
        any_check(OP_LSTM, form);
    }
}

struct form {
    enum op op;
    const char *acts[6]; /* of both directions; NULL = the operator's own */
    float clip, cell_clip;
    bool peepholes;
};

/* Values large enough that clips and the flat ends of the hard functions matter. */
static void check_form(const struct form *f)
{
    int64_t gates = f->op == OP_LSTM ? 4 : 3, hidden = 19, batch = 2, steps = 4;
    uint32_t acts = f->op == OP_LSTM ? 6 : 4;
    struct cross *c = cross_new(f->op);
    cross_input(c, F32, 3, (int64_t[]){steps, batch, 7}, false);
    cross_input(c, F32, 3, (int64_t[]){2, gates * hidden, 7}, true);
    cross_input(c, F32, 3, (int64_t[]){2, gates * hidden, hidden}, true);
    cross_input(c, F32, 2, (int64_t[]){2, 2 * gates * hidden}, true);
    if (f->peepholes) {
        cross_omit(c);
        cross_omit(c);
        cross_input(c, F32, 3, (int64_t[]){2, batch, hidden}, false);
        cross_input(c, F32, 2, (int64_t[]){2, 3 * hidden}, true);
    }
    cross_outputs(c, f->op == OP_LSTM ? 3 : 2);
    cross_int(c, ATTR_hidden_size, hidden);
    cross_text(c, ATTR_direction, "bidirectional");
    if (f->acts[0] != NULL) {
        cross_texts(c, ATTR_activations, acts, f->acts);
    }
    if (f->clip > 0) {
        cross_float(c, ATTR_clip, f->clip);
    }
    if (f->cell_clip > 0) {
        cross_float(c, ATTR_cell_clip, f->cell_clip);
    }
    cross_check(c);
}

Test(xnnpack_rnn, activations_clips_and_peepholes)
{
    static const struct form forms[] = {
        {OP_LSTM, {NULL}, 0, 0.3f, false},
        {OP_LSTM, {NULL}, 0.7f, 0, false},
        {OP_LSTM, {NULL}, 0, 0, true},
        {OP_LSTM, {"HardSigmoid", "Tanh", "Tanh", "HardSigmoid", "Tanh", "Tanh"}, 0, 0, false},
        {OP_LSTM, {"HardSigmoid", "Relu", "Softsign", "Sigmoid", "LeakyRelu", "Elu"}, 0.9f, 0.5f, true},
        {OP_GRU, {"HardSigmoid", "Tanh", "Sigmoid", "Relu"}, 0, 0, false},
        {OP_GRU, {NULL}, 0.4f, 0, false},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check_form(&forms[i]);
    }
}

/* ---- integers ---- */

struct cells {
    int64_t steps, batch, inputs, units, out;
    bool coupled, holes, norms, projects, first, bias;
};

static void scales(struct cross *c, const struct cells *v)
{
    float of[25] = {0.02f, 0.008f, 0x1p-11f, 0.01f, 0.006f};
    const int32_t zeros[3] = {-3, 4, v->projects ? 9 : 4};
    for (int g = 0; g < 4; g++) {
        const float gate[5] = {0.004f + 0.001f * (float)g, 0.003f, 0.0001f, 0.0001f, v->norms ? 0.001f : 0x1p-12f};
        for (int i = 0; i < 5; i++) {
            of[5 + 5 * g + i] = gate[i];
        }
    }
    cross_data(c, F32, 1, (int64_t[]){25}, of, true);
    cross_data(c, PEN_DTYPE_I32, 1, (int64_t[]){3}, zeros, true);
}

static void one_of(struct cross *c, bool there, enum pen_dtype dtype, int32_t rank, const int64_t *dims)
{
    if (there) {
        cross_input(c, dtype, rank, dims, true);
    } else {
        cross_omit(c);
    }
}

/* Both compute the same integers: equal to the last bit. */
static void cells_check(const struct cells *v)
{
    const int64_t gates = v->coupled ? 3 : 4, out = v->projects ? v->out : v->units;
    struct cross *c = cross_new(OP_LSTMInteger);
    cross_input(c, PEN_DTYPE_I8, 3,
                v->first ? (int64_t[]){v->batch, v->steps, v->inputs} : (int64_t[]){v->steps, v->batch, v->inputs},
                false);
    cross_input(c, PEN_DTYPE_I8, 3, (int64_t[]){gates, v->units, v->inputs}, true);
    cross_input(c, PEN_DTYPE_I8, 3, (int64_t[]){gates, v->units, out}, true);
    scales(c, v);
    one_of(c, v->bias, PEN_DTYPE_I32, 2, (int64_t[]){gates, v->units});
    one_of(c, v->holes, PEN_DTYPE_I16, 2, (int64_t[]){gates - 1, v->units});
    one_of(c, v->norms, PEN_DTYPE_I16, 2, (int64_t[]){gates, v->units});
    one_of(c, v->projects, PEN_DTYPE_I8, 2, (int64_t[]){out, v->units});
    one_of(c, v->projects && v->bias, PEN_DTYPE_I32, 1, (int64_t[]){out});
    cross_int(c, ATTR_layout, v->first);
    cross_float(c, ATTR_cell_clip, v->holes ? 0.5f : 0.0f);
    cross_check(c);
}

Test(xnnpack_rnn, cells_of_integers)
{
    for (int i = 0; i < 48; i++) {
        cells_check(&(struct cells){.steps = cross_pick(1, 6),
                                    .batch = cross_pick(1, 4),
                                    .inputs = cross_pick(1, 40),
                                    .units = cross_pick(1, 50),
                                    .out = cross_pick(1, 40),
                                    .coupled = (i & 1) != 0,
                                    .holes = (i & 2) != 0,
                                    .norms = (i & 4) != 0,
                                    .projects = (i & 8) != 0,
                                    .first = (i & 16) != 0,
                                    .bias = i % 3 != 0});
    }
}

/* More steps than one product takes, and steps that threads share. */
Test(xnnpack_rnn, cells_of_integers_in_blocks)
{
    for (int first = 0; first < 2; first++) {
        cells_check(&(struct cells){.steps = 70, .batch = 33, .inputs = 5, .units = 70, .first = first != 0});
        cells_check(&(struct cells){.steps = 3, .batch = 9, .inputs = 64, .units = 200, .first = first != 0});
    }
}
