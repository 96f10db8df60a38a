#include "wire_out.h"

#include <criterion/criterion.h>
#include <string.h>

static void put(struct out *o, const void *data, size_t size)
{
    cr_assert_leq(o->size + size, sizeof o->bytes);
    if (size)
        memcpy(o->bytes + o->size, data, size);
    o->size += size;
}

static void put_varint(struct out *o, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(o, &byte, 1);
        value >>= 7;
    } while (value);
}

void out_varint(struct out *o, uint32_t field, uint64_t value)
{
    put_varint(o, (uint64_t)field << 3);
    put_varint(o, value);
}

void out_float(struct out *o, uint32_t field, float value)
{
    put_varint(o, (uint64_t)field << 3 | 5);
    put(o, &value, sizeof value);
}

void out_bytes(struct out *o, uint32_t field, const void *data, size_t size)
{
    put_varint(o, (uint64_t)field << 3 | 2);
    put_varint(o, size);
    put(o, data, size);
}

void out_text(struct out *o, uint32_t field, const char *text)
{
    out_bytes(o, field, text, strlen(text));
}

void out_message(struct out *o, uint32_t field, const struct out *message)
{
    out_bytes(o, field, message->bytes, message->size);
}

void out_model(struct out *model, int64_t opset, const struct out *graph)
{
    struct out import = {.size = 0};
    out_varint(&import, 2, (uint64_t)opset);
    out_varint(model, 1, 8);
    out_message(model, 8, &import);
    out_message(model, 7, graph);
}

void out_node_in(struct out *parent, uint32_t field, const char *op, const char *domain, const char *const *inputs,
                 const char *const *outputs, const struct out *attributes)
{
    static struct out node;
    node.size = 0;
    for (; *inputs; inputs++)
        out_text(&node, 1, *inputs);
    for (; *outputs; outputs++)
        out_text(&node, 2, *outputs);
    out_text(&node, 4, op);
    if (attributes)
        put(&node, attributes->bytes, attributes->size);
    if (domain)
        out_text(&node, 7, domain);
    out_message(parent, field, &node);
}

void out_node(struct out *graph, const char *op, const char *domain, const char *const *inputs,
              const char *const *outputs, const struct out *attributes)
{
    out_node_in(graph, 1, op, domain, inputs, outputs, attributes);
}

void out_value(struct out *graph, uint32_t field, const char *name, int rank, const int64_t *dims)
{
    struct out shape = {.size = 0}, tensor = {.size = 0}, type = {.size = 0}, info = {.size = 0};
    for (int i = 0; i < rank; i++) {
        struct out dim = {.size = 0};
        if (dims[i] >= 0)
            out_varint(&dim, 1, (uint64_t)dims[i]);
        else
            out_text(&dim, 2, "N");
        out_message(&shape, 1, &dim);
    }
    out_varint(&tensor, 1, 1);
    out_message(&tensor, 2, &shape);
    out_message(&type, 1, &tensor);
    out_text(&info, 1, name);
    out_message(&info, 2, &type);
    out_message(graph, field, &info);
}

void out_attr_int(struct out *attributes, const char *name, int64_t value)
{
    struct out a = {.size = 0};
    out_text(&a, 1, name);
    out_varint(&a, 3, (uint64_t)value);
    out_varint(&a, 20, 2);
    out_message(attributes, 5, &a);
}

void out_attr_ints(struct out *attributes, const char *name, int count, const int64_t *items)
{
    struct out a = {.size = 0};
    out_text(&a, 1, name);
    for (int i = 0; i < count; i++)
        out_varint(&a, 8, (uint64_t)items[i]);
    out_varint(&a, 20, 7);
    out_message(attributes, 5, &a);
}

void out_attr_graph(struct out *attributes, const char *name, const struct out *graph)
{
    static struct out a;
    a.size = 0;
    out_text(&a, 1, name);
    out_message(&a, 6, graph);
    out_varint(&a, 20, 5);
    out_message(attributes, 5, &a);
}

void out_initializer(struct out *graph, const char *name, int rank, const int64_t *dims, const float *items,
                     size_t count)
{
    static struct out t;
    t.size = 0;
    for (int i = 0; i < rank; i++)
        out_varint(&t, 1, (uint64_t)dims[i]);
    out_varint(&t, 2, 1);
    out_text(&t, 8, name);
    out_bytes(&t, 9, items, count * sizeof *items);
    out_message(graph, 5, &t);
}
