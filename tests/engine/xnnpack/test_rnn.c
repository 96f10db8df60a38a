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

Test(xnnpack_rnn, lengths_of_sequences_are_refused)
{
    struct cross *c = cross_new(OP_LSTM);
    cross_input(c, F32, 3, (int64_t[]){3, 2, 4}, false);
    cross_input(c, F32, 3, (int64_t[]){1, 20, 4}, true);
    cross_input(c, F32, 3, (int64_t[]){1, 20, 5}, true);
    cross_omit(c);
    cross_data(c, PEN_DTYPE_I32, 1, (int64_t[]){2}, (int32_t[]){3, 2}, false);
    cross_int(c, ATTR_hidden_size, 5);
    cross_refused(c);
}
