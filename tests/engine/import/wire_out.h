/*
 * wire_out.h - writes protobuf's wire format, to make ONNX files for tests: the sound ones and the broken ones.
 *
 * Threads: owner.
 */
#ifndef TEST_WIRE_OUT_H
#define TEST_WIRE_OUT_H

#include <stddef.h>
#include <stdint.h>

struct out {
    uint8_t bytes[16384];
    size_t size;
};

void out_varint(struct out *o, uint32_t field, uint64_t value);
void out_float(struct out *o, uint32_t field, float value);
void out_bytes(struct out *o, uint32_t field, const void *data, size_t size);
void out_text(struct out *o, uint32_t field, const char *text);
void out_message(struct out *o, uint32_t field, const struct out *message);

/* ONNX messages. Lists of names end with NULL. */
void out_model(struct out *model, int64_t opset, const struct out *graph);
void out_node(struct out *graph, const char *op, const char *domain, const char *const *inputs,
              const char *const *outputs,
              const struct out *attributes); /* attributes: fields 5 ready-made, may be NULL */
void out_node_in(struct out *parent, uint32_t field, const char *op, const char *domain, const char *const *inputs,
                 const char *const *outputs, const struct out *attributes);
/* ValueInfoProto: f32 with these dims; field 11 = input, 12 = output. */
void out_value(struct out *graph, uint32_t field, const char *name, int rank, const int64_t *dims);
void out_attr_int(struct out *attributes, const char *name, int64_t value);
void out_attr_ints(struct out *attributes, const char *name, int count, const int64_t *items);
void out_attr_graph(struct out *attributes, const char *name, const struct out *graph);
/* f32 TensorProto in raw_data as a graph's initialiser. */
void out_initializer(struct out *graph, const char *name, int rank, const int64_t *dims, const float *items,
                     size_t count);

#define NAMES(...)                                                                                                     \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

#endif
