/*
 * primitives.c - times oneDNN's primitives for the layers of a model, in the model's order (README.md).
 *
 * primitives f32|bf16 PASSES SECONDS < LAYERS. A line is a layer: KIND ACTIVATION and then, for
 *   conv, deconv: N C H W K KH KW OH OW, strides SH SW, pads top left bottom right, dilations DH DW, groups
 *   gemm:         rows, inputs, outputs; inner product and matmul are both timed, the faster counts
 * It prints a line for each layer: the least time in us of all passes (as many as fit in SECONDS, at least PASSES), and the name of the implementation. Each pass runs all layers one after the other, each with weights and
 * activations of its own, so that the caches see what they see in a model. oneDNN chooses all layouts; nothing is reordered.
 */
#define _GNU_SOURCE
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAYERS_MAX 1024
#define NUMBERS    18

struct choice {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[4];
    double least_us;
    const char *name;
};

struct layer {
    char kind[16], activation[16];
    dnnl_dim_t n[NUMBERS + DNNL_MAX_NDIMS]; /* oneDNN takes addresses in it as lists of that many */
    struct choice choices[2];
    int choice_count;
};

struct activation {
    const char *name;
    dnnl_alg_kind_t kind;
    float alpha, beta;
};

static const struct activation activations[] = {
    {"relu", dnnl_eltwise_relu, 0, 0},           {"clip", dnnl_eltwise_clip, 0, 6},
    {"sigmoid", dnnl_eltwise_logistic, 0, 0},    {"swish", dnnl_eltwise_swish, 1, 0},
    {"hardswish", dnnl_eltwise_hardswish, 0, 0}, {"gelu", dnnl_eltwise_gelu_erf, 0, 0},
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_data_type_t type;
static struct layer layers[LAYERS_MAX];

static void must(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success) {
        fprintf(stderr, "primitives: %s failed with status %d of oneDNN\n", what, (int)status);
        exit(1);
    }
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static dnnl_memory_desc_t any(int rank, const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t md;
    must(dnnl_memory_desc_init_by_tag(&md, rank, dims, type, dnnl_format_tag_any), "a tensor's description");
    return md;
}

/* Biases are f32 in both precisions. */
static dnnl_memory_desc_t bias(int rank, const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t md;
    must(dnnl_memory_desc_init_by_tag(&md, rank, dims, dnnl_f32, rank == 1 ? dnnl_a : dnnl_ab), "a bias' description");
    return md;
}

static dnnl_primitive_attr_t attributes(const char *activation)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    must(dnnl_primitive_attr_create(&attr), "attributes");
    must(dnnl_post_ops_create(&ops), "post-ops");
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        const struct activation *a = &activations[i];
        if (strcmp(a->name, activation) == 0) {
            must(dnnl_post_ops_append_eltwise(ops, 1, a->kind, a->alpha, a->beta), "an activation");
        }
    }
    must(dnnl_primitive_attr_set_post_ops(attr, ops), "post-ops");
    return attr;
}

/* Memory full of small numbers; zeros and denormals would take times of their own. */
static dnnl_memory_t filled(const dnnl_memory_desc_t *md)
{
    dnnl_memory_t memory;
    void *data = NULL;
    must(dnnl_memory_create(&memory, md, engine, DNNL_MEMORY_ALLOCATE), "memory");
    must(dnnl_memory_get_data_handle(memory, &data), "memory");
    const size_t bytes = dnnl_memory_desc_get_size(md);
    for (size_t i = 0; i + 2 <= bytes; i += 2) {
        const unsigned short number =
            (unsigned short)(0x3c00 + i % 251); /* bf16 and the upper half of f32: about 0.01 */
        memcpy((char *)data + i, &number, 2);
    }
    return memory;
}

static void choice_add(struct layer *l, const_dnnl_op_desc_t op)
{
    static const struct {
        dnnl_query_t query;
        int arg;
    } tensors[] = {{dnnl_query_src_md, DNNL_ARG_SRC},
                   {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
                   {dnnl_query_weights_md, DNNL_ARG_BIAS},
                   {dnnl_query_dst_md, DNNL_ARG_DST}};
    struct choice *c = &l->choices[l->choice_count];
    dnnl_primitive_desc_t pd;
    if (dnnl_primitive_desc_create(&pd, op, attributes(l->activation), engine, NULL) != dnnl_success) {
        return;
    }
    l->choice_count++;
    c->least_us = 1e18;
    must(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &c->name), "the implementation's name");
    must(dnnl_primitive_create(&c->primitive, pd), "a primitive");
    for (int i = 0; i < 4; i++) {
        const int index = tensors[i].arg == DNNL_ARG_BIAS ? 1 : 0;
        c->args[i] =
            (dnnl_exec_arg_t){tensors[i].arg, filled(dnnl_primitive_desc_query_md(pd, tensors[i].query, index))};
    }
}

static void convolution_add(struct layer *l, int transposed)
{
    const dnnl_dim_t *n = l->n, groups = n[17];
    const dnnl_memory_desc_t x = any(4, n), y = any(4, (dnnl_dims_t){n[0], n[4], n[7], n[8]});
    const dnnl_memory_desc_t b = bias(1, &n[4]);
    const dnnl_dims_t grouped = {groups, n[4] / groups, n[1] / groups, n[5], n[6]};
    const dnnl_dims_t plain = {n[4], n[1], n[5], n[6]};
    const dnnl_memory_desc_t w = groups > 1 ? any(5, grouped) : any(4, plain);
    const dnnl_dims_t dilations = {n[15] - 1, n[16] - 1};
    if (transposed) {
        dnnl_deconvolution_desc_t d;
        must(dnnl_dilated_deconvolution_forward_desc_init(&d, dnnl_forward_inference, dnnl_deconvolution_direct, &x, &w,
                                                          &b, &y, n + 9, dilations, n + 11, n + 13),
             "a deconvolution's description");
        choice_add(l, &d);
        return;
    }
    dnnl_convolution_desc_t d;
    must(dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference, dnnl_convolution_auto, &x, &w, &b, &y,
                                                    n + 9, dilations, n + 11, n + 13),
         "a convolution's description");
    choice_add(l, &d);
}

static void product_add(struct layer *l)
{
    const dnnl_dim_t *n = l->n;
    const dnnl_memory_desc_t x = any(2, n), y = any(2, (dnnl_dims_t){n[0], n[2]});
    const dnnl_memory_desc_t w = any(2, (dnnl_dims_t){n[2], n[1]}), b = bias(1, &n[2]);
    const dnnl_memory_desc_t w2 = any(2, (dnnl_dims_t){n[1], n[2]}), b2 = bias(2, (dnnl_dims_t){1, n[2]});
    dnnl_inner_product_desc_t inner;
    dnnl_matmul_desc_t matmul;
    must(dnnl_inner_product_forward_desc_init(&inner, dnnl_forward_inference, &x, &w, &b, &y), "an inner product");
    choice_add(l, &inner);
    must(dnnl_matmul_desc_init(&matmul, &x, &w2, &b2, &y), "a product");
    choice_add(l, &matmul);
}

static int layer_read(struct layer *l)
{
    if (scanf("%15s %15s", l->kind, l->activation) != 2) {
        return 0;
    }
    const int numbers = strcmp(l->kind, "gemm") == 0 ? 3 : NUMBERS;
    for (int i = 0; i < numbers; i++) {
        long long number = 0;
        if (scanf("%lld", &number) != 1) {
            fprintf(stderr, "primitives: a line of %s has %d numbers\n", l->kind, numbers);
            exit(2);
        }
        l->n[i] = number;
    }
    return 1;
}

static void layer_prepare(struct layer *l)
{
    if (strcmp(l->kind, "gemm") == 0) {
        product_add(l);
    } else {
        convolution_add(l, strcmp(l->kind, "deconv") == 0);
    }
}

static void choice_time(struct choice *c)
{
    const double begin = now_us();
    must(dnnl_primitive_execute(c->primitive, stream, 4, c->args), "a layer");
    must(dnnl_stream_wait(stream), "a layer");
    const double us = now_us() - begin;
    c->least_us = us < c->least_us ? us : c->least_us;
}

static void layer_print(const struct layer *l)
{
    const struct choice *best = &l->choices[0];
    for (int i = 1; i < l->choice_count; i++) {
        best = l->choices[i].least_us < best->least_us ? &l->choices[i] : best;
    }
    printf("%.2f %s\n", l->choice_count > 0 ? best->least_us : -1.0, l->choice_count > 0 ? best->name : "none");
}

static void layers_pass(int count)
{
    for (int choice = 0; choice < 2; choice++) {
        for (int i = 0; i < count; i++) {
            if (choice < layers[i].choice_count) {
                choice_time(&layers[i].choices[choice]);
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: primitives f32|bf16 PASSES SECONDS < LAYERS\n");
        return 2;
    }
    type = strcmp(argv[1], "bf16") == 0 ? dnnl_bf16 : dnnl_f32;
    must(dnnl_engine_create(&engine, dnnl_cpu, 0), "the engine");
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "the stream");
    int count = 0;
    while (count < LAYERS_MAX && layer_read(&layers[count])) {
        layer_prepare(&layers[count++]);
    }
    const double end = now_us() + atof(argv[3]) * 1e6;
    for (int pass = 0; pass < atoi(argv[2]) || now_us() < end; pass++) {
        layers_pass(count);
    }
    for (int i = 0; i < count; i++) {
        layer_print(&layers[i]);
    }
    return 0;
}
