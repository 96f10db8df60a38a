/*
 * op.h - how an operator becomes work for the device: what a family of kernels in ops/ provides, and the calls it is written with.
 *
 * The life of a node: supports (pure) -> pack (plan_new: weights into the form its shader reads; shared by every exec) -> build (exec_new: shapes are concrete;
 * adds dispatches). Nothing of a family runs on the host afterwards: the dispatches are recorded once.
 *
 * A *cell* is a tensor on the device: a value of the graph, a packed weight, or a temporary. Dense, row-major, in the element type of the graph; f32 is stored
 * as f16 where the backend's precision says so (a shader's REAL). Every cell has whole 4-byte words.
 * Threads: pack and build one-at-a-time.
 */
#ifndef VULKAN_OP_H
#define VULKAN_OP_H

#include "backend/backend.h"
#include "backend/vulkan/kernels.h"
#include "backend/vulkan/pipeline.h"
#include "backend/window.h"

#define VK_CELL_NONE UINT32_MAX
#define VK_PACKS_MAX 10 /* packed weights of one node */

struct vk_weights;

/* A node while its weights are packed. */
struct vk_pack {
    const struct graph *g;
    const struct node *n;
    struct vk_weights *weights;
    uint32_t index; /* of the node in its partition */
    bool outside;   /* it has weights that f16 cannot hold, and floats are stored so */
    struct pen_error *reterr;
};
/* Gives a host buffer of `count` zeros to fill; what is in it when pack returns is stored on the device as packed weight `slot`. NULL without memory. */
float *vk_pack_floats(struct vk_pack *p, uint32_t slot, size_t count);

/* Packed weight `slot` is these bytes as they are: zeros to fill, as above. */
void *vk_pack_bytes(struct vk_pack *p, uint32_t slot, size_t bytes);

/* Packed weight `slot` stays f32 whatever the storage: small ones, and those that f16 cannot hold. Its reader looks at vk_cell_wide. */
void vk_pack_wide(struct vk_pack *p, uint32_t slot);
/* The same when the node has weights that f16 cannot hold. */
void vk_pack_wide_if_outside(struct vk_pack *p, uint32_t slot);
/* Packed weight `slot` is bf16 in precision bf16: its reader is vk_product, or looks at vk_cell_bf16. */
void vk_pack_bf16(struct vk_pack *p, uint32_t slot);

/* vk_conv=winograd, and this device stores floats as f32. */
bool vk_pack_winograd(const struct vk_pack *p);

struct vk_epilogue;

/* A node while its exec is made. Errors stick in `status`; the calls below do nothing after one. */
struct vk_build {
    const struct graph *g;
    const struct shape_env *env;
    const struct node *n;
    uint32_t index; /* of the node in its partition */
    bool wide;      /* its floats are f32 though the device stores them as f16 (storage.h) */
    struct exec *exec;
    const struct vk_epilogue
        *epilogue; /* of a product that waited for its readers: they are computed with it (ops/epilogue.h) */
    enum pen_status status;
    struct pen_error *reterr;
};

struct vk_op {
    /* Only asked for nodes whose inputs and outputs are tensors of known rank and dtype. */
    bool (*supports)(const struct graph *g, const struct node *n, const char **ret_reason);
    enum pen_status (*pack)(struct vk_pack *p); /* NULL = nothing to pack */
    void (*build)(struct vk_build *b);
};
const struct vk_op *vk_op_find(enum op op); /* ops/table.c; NULL when this backend has none */

const char *vk_op_shaders(enum op op); /* their names with blanks between; NULL = none */

enum vk_access { VK_READ = 1, VK_WRITE = 2, VK_READ_WRITE = 3 };

struct vk_work;

const struct fact *vk_in(const struct vk_build *b, uint32_t index);  /* NULL when omitted */
const struct fact *vk_out(const struct vk_build *b, uint32_t index); /* NULL when omitted */
uint32_t vk_in_cell(struct vk_build *b, uint32_t index);             /* uploads constants */
uint32_t vk_out_cell(struct vk_build *b, uint32_t index);
uint32_t vk_value_cell(struct vk_build *b, uint32_t value); /* in the node's storage */
uint32_t vk_packed_cell(struct vk_build *b, uint32_t slot); /* VK_CELL_NONE when pack gave nothing there */
bool vk_cell_wide(const struct vk_build *b, uint32_t cell); /* f32 though this node's floats are f16 */
bool vk_cell_bf16(const struct vk_build *b, uint32_t cell); /* packed weights that are bf16 */
uint32_t vk_temp_cell(struct vk_build *b, size_t reals);    /* a temporary of so many floats, in the storage type */
uint32_t vk_host_cell(struct vk_build *b, const void *data, size_t bytes); /* uploads a table made for these shapes */
uint32_t vk_temp_f32(struct vk_build *b, size_t floats);                   /* always f32 */
uint32_t vk_flag_cell(struct vk_build *b);                                 /* two words: see vk_complain */
void vk_view(struct vk_build *b, uint32_t input); /* output 0 is the bytes of this input: no work */
void vk_build_fail(struct vk_build *b, enum pen_status status, const char *what);

/* A dispatch. Buffers are bound in the order of the calls, constants have ids from 0, push constants are words in order. */
struct vk_work *vk_dispatch(struct vk_build *b, enum shader shader);
void vk_bind(struct vk_work *w, uint32_t cell, enum vk_access access);
void vk_spec(struct vk_work *w, uint32_t value);
void vk_spec_float(struct vk_work *w, float value);
void vk_push(struct vk_work *w, size_t value);
void vk_push_float(struct vk_work *w, float value);
void vk_push_all(struct vk_work *w, const size_t *values, size_t count);
/* Eight words: kernel, stride, dilation and what lies before the image, height and width each. */
void vk_push_window(struct vk_work *w, const struct window *window);
#define VK_LOCAL 64 /* invocations of a workgroup: LOCAL of ops/common.glsl */
/* One invocation per item; the shader uses linear_id(). */
void vk_items(struct vk_work *w, size_t items);
void vk_groups(struct vk_work *w, size_t x, size_t y, size_t z); /* PEN_ERR_UNSUPPORTED beyond the device's limits */

/* Device facts for choosing a kernel. */
/* window: NULL for a batch of matrices. wide_weights: they may not be rounded. Notes the product for the tuner. */
struct window;
struct vk_choice vk_build_choose(const struct vk_build *b, const struct vk_product_shape *shape,
                                 const struct window *window, bool wide_weights, bool conv);
/* bytes.c: for a product of bytes. ret_dot: by kernels that multiply four at once. Notes the product for the tuner. */
struct vk_choice vk_build_choose_bytes(const struct vk_build *b, const struct vk_product_shape *shape,
                                       const struct window *window, bool *ret_dot);
/* bytes.c: for floats times codes of few bits: SIMPLE, TILED, GEMV, or CM where the values that they stand for are within f16. */
struct vk_coding;
struct vk_choice vk_build_choose_codes(const struct vk_build *b, const struct vk_product_shape *shape,
                                       const struct vk_coding *coding, bool halves);
void vk_build_winograd(struct vk_build *b); /* notes that the node runs by Winograd's method, as vk_conv asks */
uint32_t vk_build_repeats(
    const struct vk_build *b); /* products are dispatched so often: 1 but while the tuner measures */
struct vk_matrix_size vk_build_matrices(const struct vk_build *b);      /* rows 0: no cooperative matrices here */
struct vk_matrix_size vk_build_byte_matrices(const struct vk_build *b); /* the same of bytes */
enum vk_coopmat2_form vk_build_coopmat2(const struct vk_build *b);      /* which kernel of family `cm2` runs here */
bool vk_build_f16(const struct vk_build *b);                            /* are this node's floats stored as f16? */
bool vk_build_bf16(const struct vk_build *b);                           /* are they rounded to bf16 in products? */
bool vk_build_apart(
    const struct vk_build *b); /* debug mode: nodes are looked at one by one, none joins another's dispatch */

/* ---- nodes that join another's dispatch (ops/elementwise.c) ---- */
const struct node *vk_user(const struct vk_build *b, uint32_t value); /* its only reader in the exec, else NULL */
void vk_inputs_convert(struct vk_build *b);                    /* those that their makers stored in the other way */
void vk_defer(struct vk_build *b);                             /* this node is built with the reader of its output */
bool vk_deferred(const struct vk_build *b, uint32_t value);    /* made by a deferred node */
bool vk_alike(const struct vk_build *b, const struct node *n); /* stores floats as this node does */
struct vk_build vk_build_of(
    const struct vk_build *b,
    const struct node *n); /* a deferred node of the partition that is built now, with this one */
bool vk_packed_there(const struct vk_build *b, uint32_t slot); /* pack gave something there */
void vk_build_joined(const struct vk_build *b); /* the node's work is in a product's dispatch: for people */

/* ---- for supports ---- */
bool vk_refuse(const char **ret_reason, const char *reason);                   /* false */
bool vk_all_f32(const struct graph *g, const struct node *n);                  /* every input and output given */
bool vk_constant(const struct graph *g, const struct node *n, uint32_t index); /* present and with data */
bool vk_dtype_is(const struct value *v, enum pen_dtype dtype);                 /* false when NULL */
size_t vk_elements(const struct fact *f);                                      /* of a known shape */

/* Activations that only products have; no ATTR_act. */
enum vk_activation { VK_ACT_GELU = 7, VK_ACT_GELU_TANH = 8 };
/* ATTR_act of a node as three constants for activate() of ops/common.glsl. */
struct vk_act {
    uint32_t kind;
    float a, b;
};
struct vk_act vk_act_read(const struct node *n);
void vk_spec_act(struct vk_work *w, const struct vk_act *act); /* three constants */

#endif
