/* Constants beyond f16 where floats are stored as f16: a mask before a soft-max keeps its meaning, other numbers keep their size; both stay on the device. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "../graph/build.h"
#include "backend/vulkan/loader.h"
#include "backend/vulkan/plan.h"
#include "backend/vulkan/range.h"
#include "device.h"

#define ROWS 3
#define KEYS 8

/* y [ROWS, KEYS] of scores x and of marks (bool or i64: which keys count). */
struct masked {
    struct graph *g;
    struct shape_env *env;
    uint32_t x, marks, constant, y, nodes[12];
    float scores[ROWS * KEYS + 16], out[ROWS * KEYS + 16];
    int64_t count[KEYS + 8];
    uint8_t yes[KEYS + 64];
};

enum form { FORM_CAST, FORM_WHERE, FORM_PLACE };

/* x + (1 - marks) c; x + where(marks, 0, c); where(marks, x, c): then a soft-max, or nothing. */
static void masked_make(struct masked *m, enum form form, float c, bool softmax)
{
    struct pen_error error = {0};
    memset(m, 0, sizeof *m);
    m->g = build_graph();
    m->x = build_input(m->g, "x", DIMS(ROWS, KEYS));
    m->marks = build_typed_input(m->g, "marks", form == FORM_CAST ? PEN_DTYPE_I64 : PEN_DTYPE_BOOL, DIMS(KEYS));
    m->constant = build_scalar(m->g, c);
    uint32_t y = 0;
    if (form == FORM_CAST) {
        uint32_t cast = build_node(m->g, OP_Cast, IDS(m->marks));
        cr_assert_eq(graph_attr_int(m->g, maker(m->g, cast), ATTR_to, PEN_DTYPE_F32), PEN_OK);
        uint32_t off = build_node(m->g, OP_Sub, IDS(build_scalar(m->g, 1.0f), cast));
        uint32_t row = build_node(m->g, OP_Unsqueeze, IDS(off, build_list(m->g, 1, (int64_t[]){0})));
        y = build_node(m->g, OP_Add, IDS(m->x, build_node(m->g, OP_Mul, IDS(row, m->constant))));
    } else if (form == FORM_WHERE) {
        uint32_t zero = build_scalar(m->g, 0.0f);
        y = build_node(m->g, OP_Add, IDS(m->x, build_node(m->g, OP_Where, IDS(m->marks, zero, m->constant))));
    } else {
        y = build_node(m->g, OP_Where, IDS(m->marks, m->x, m->constant));
    }
    m->y = softmax ? build_node(m->g, OP_Softmax, IDS(y)) : y;
    build_output(m->g, m->y);
    cr_assert_eq(shape_env_new(m->g,
                               (struct shape[]){shape_of(2, (int64_t[]){ROWS, KEYS}), shape_of(1, (int64_t[]){KEYS})},
                               NULL, false, &m->env, &error),
                 PEN_OK, "%s", error.text);
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        m->nodes[i] = i;
    }
    for (uint32_t v = 0; v < m->g->value_count; v++) { /* what annotations know */
        m->g->values[v].kind = VALUE_TENSOR;
        m->g->values[v].dtype = m->env->facts[v].dtype;
        m->g->values[v].shape = m->env->facts[v].shape;
    }
    for (size_t i = 0; i < ROWS * KEYS; i++) {
        m->scores[i] = 20.0f * sinf((float)i) - 10.0f;
    }
}

static void masked_free(struct masked *m)
{
    shape_env_free(m->env);
    graph_free(m->g);
}

/* Every node on the device, whose note of the plan goes to `note` of 300. */
static void masked_run(struct masked *m, struct backend *b, uint32_t kept, char *note)
{
    const struct partition part = {m->nodes, m->g->node_count, (uint32_t[]){m->x, m->marks}, 2, &m->y, 1};
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    struct pen_error error = {0};
    bool words = m->g->values[m->marks].dtype == PEN_DTYPE_I64;
    for (uint32_t i = 0; i < KEYS; i++) {
        m->count[i] = m->yes[i] = (kept >> i & 1u) != 0;
    }
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        const char *why = "";
        cr_assert(backend_vulkan.supports(b, m->g, &m->g->nodes[i], &why), "%s: %s", op_def(m->g->nodes[i].op)->name,
                  why);
    }
    cr_assert_eq(backend_vulkan.plan_new(b, m->g, &part, &plan, &error), PEN_OK, "%s", error.text);
    backend_vulkan.plan_note(plan, note, 300);
    cr_assert_eq(backend_vulkan.exec_new(plan, m->env, &exec, &error), PEN_OK, "%s", error.text);
    const struct buffer_view in[2] = {{.data = m->scores,
                                       .bytes = ROWS * KEYS * sizeof(float),
                                       .shape = m->env->facts[m->x].shape,
                                       .dtype = PEN_DTYPE_F32},
                                      {.data = words ? (void *)m->count : (void *)m->yes,
                                       .bytes = KEYS * (words ? sizeof(int64_t) : 1),
                                       .shape = m->env->facts[m->marks].shape,
                                       .dtype = m->g->values[m->marks].dtype}},
                             out = {.data = m->out,
                                    .bytes = ROWS * KEYS * sizeof(float),
                                    .shape = m->env->facts[m->y].shape,
                                    .dtype = PEN_DTYPE_F32};
    cr_assert_eq(backend_vulkan.exec_submit(exec, in, &out, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_wait(exec, &error), PEN_OK, "%s", error.text);
    backend_vulkan.exec_free(exec);
    backend_vulkan.plan_free(plan);
}

/* Shares of the keys that count; where none does, f16 leaves so much that they are shares at all. */
static void softmax_right(const struct masked *m, uint32_t kept)
{
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0.0, all = 0.0;
        for (size_t i = 0; i < KEYS; i++) {
            sum += (kept >> i & 1u) != 0 ? exp((double)m->scores[r * KEYS + i]) : 0.0;
        }
        for (size_t i = 0; i < KEYS; i++) {
            double got = (double)m->out[r * KEYS + i];
            double right = (kept >> i & 1u) != 0 ? exp((double)m->scores[r * KEYS + i]) / sum : 0.0;
            cr_expect(kept == 0 ? got >= 0.0 && got <= 1.0 : fabs(got - right) <= 1e-2 * right + 2e-3,
                      "marks %x, row %zu, key %zu: %g, not %g", kept, r, i, got, right);
            all += got;
        }
        cr_expect_float_eq(all, 1.0, 1e-2, "marks %x, row %zu: shares of %g in all", kept, r, all);
    }
}

Test(vulkan_masks, a_mask_beyond_f16_stays_on_the_device, .timeout = 120)
{
    static const float masks[] = {-3.4028235e38f, -1e9f, -65505.0f};
    struct backend *b = device_open(PEN_PRECISION_F16_STORAGE, "auto");
    for (enum form form = FORM_CAST; form <= FORM_PLACE; form++) {
        for (size_t i = 0; i < (form == FORM_CAST ? 3 : 1); i++) {
            static const uint32_t kept[] = {0xFFu, 0x0Fu, 0x81u, 0u};
            struct masked m;
            masked_make(&m, form, masks[i], true);
            cr_expect(vk_range_mask(m.g, m.constant), "form %d", form);
            for (size_t k = 0; k < (i == 0 ? 4 : 1); k++) {
                char note[300] = "";
                masked_run(&m, b, kept[k], note);
                softmax_right(&m, kept[k]);
                cr_expect_str_empty(note, "a mask is no weight that f16 cannot hold: %s", note);
            }
            masked_free(&m);
        }
    }
    device_close(b);
}

/* What somebody else reads, or what is scaled by a number that is not whole, is no mask: it keeps its size, in f32. */
Test(vulkan_masks, a_number_beyond_f16_keeps_its_size, .timeout = 120)
{
    struct backend *b = device_open(PEN_PRECISION_F16_STORAGE, "auto");
    struct masked m;
    char note[300] = "";
    masked_make(&m, FORM_PLACE, -1e6f, false);
    cr_expect_not(vk_range_mask(m.g, m.constant));
    masked_run(&m, b, 0x0Fu, note);
    cr_expect_float_eq(m.out[0], m.scores[0], 0.02f);
    cr_expect_float_eq(m.out[4], -1e6f, 1.0f, "%g", (double)m.out[4]);
    cr_expect_not_null(strstr(note, "f16 cannot hold weights of"), "%s", note);
    masked_free(&m);
    device_close(b);
}

Test(vulkan_masks, a_scale_is_no_mask)
{
    struct masked m;
    masked_make(&m, FORM_CAST, -1e6f, true);
    struct node *add = &m.g->nodes[maker(m.g, m.g->nodes[maker(m.g, m.y)].in[0])];
    struct node *mul = &m.g->nodes[maker(m.g, add->in[1])];
    cr_assert_eq(mul->op, OP_Mul);
    cr_expect_not(vk_range_outside(m.g, mul));
    mul->in[0] = m.x; /* of any size: what a millionth of the constant means is not known */
    cr_expect_not(vk_range_mask(m.g, m.constant));
    cr_expect(vk_range_outside(m.g, mul));
    masked_free(&m);
}
