/*
 * encoder.h - writes a seeded transformer encoder as BERT-like models are exported: spelled-out layer norms and gelus, attention as MatMul, Softmax, MatMul,
 * shapes computed from the inputs.
 *
 * Inputs: input_ids, attention_mask, token_type_ids, all int64 [batch, length]. Output: last_hidden_state, f32 [batch, length, hidden].
 * Threads: owner. Failures end the test with a message.
 */
#ifndef SUPPORT_ENCODER_H
#define SUPPORT_ENCODER_H

#include <stdint.h>

struct encoder {
    int64_t layers, hidden, heads, inner, vocabulary, positions;
    uint32_t seed;
};

/* The dimensions of MiniLM-L6-H384 with a vocabulary of its own size: 22.7 million weights. */
extern const struct encoder encoder_minilm;

void encoder_write(const struct encoder *e, const char *path);

#endif
