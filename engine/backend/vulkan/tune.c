#include "backend/vulkan/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/vulkan/single.h"
#include "backend/vulkan/verdicts.h"

#define REPEATS      8u /* products of one run: its fixed part counts an eighth */
#define ROUNDS_LEAST 3u /* the families take turns, so that a slower clock or a busy neighbour meets all of them */
#define ROUNDS_MOST  50u
#define CANDIDATES   PEN_TUNE_FAMILIES
#define UNWRITTEN    0xFF /* NaN in floats */
#define WORTH        0.95 /* of the time of the rules' family: less gain is noise */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct candidate {
    enum vk_family family;
    uint32_t tile; /* as vk_tuned_of has it; 0 = by the rules */
    struct exec *exec;
    uint64_t best_ns; /* of a run of REPEATS products */
};

struct measured {
    struct vk_single single;
    struct buffer_view in[2], out;
    void *right; /* what the first candidate gave: the simple family */
    struct candidate candidates[CANDIDATES];
    uint32_t count;
    uint8_t wrong[CANDIDATES]; /* as vk_tuned_of: whose results are others */
    uint32_t wrong_count;
};

static enum pen_status view_make(const struct vk_single *s, uint32_t value, struct buffer_view *v)
{
    *v = (struct buffer_view){
        .bytes = vk_single_bytes(s, value), .shape = s->facts[value].shape, .dtype = s->facts[value].dtype};
    v->data = calloc(v->bytes / sizeof(float) + 16, sizeof(float));
    if (v->data == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    if (v->dtype == PEN_DTYPE_F32) {
        vk_single_fill(v->data, v->bytes / sizeof(float), value);
    } else {
        vk_single_fill_bytes(v->data, v->bytes, value);
    }
    return PEN_OK;
}

static enum pen_status once(struct measured *m, struct candidate *c, struct pen_error *reterr)
{
    uint64_t start = now_ns();
    enum pen_status status = vk_exec_submit(c->exec, m->in, &m->out, NULL, reterr);
    if (status == PEN_OK) {
        status = vk_exec_wait(c->exec, reterr);
    }
    uint64_t took = now_ns() - start;
    c->best_ns = status == PEN_OK && took < c->best_ns ? took : c->best_ns;
    return status;
}

static uint8_t tuned_of(const struct candidate *c)
{
    return vk_tuned_of(c->family, c->tile);
}

static enum pen_status right_keep(struct measured *m, struct pen_error *reterr)
{
    m->right = malloc(m->out.bytes);
    if (m->right == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory to tune");
    }
    memcpy(m->right, m->out.data, m->out.bytes);
    return PEN_OK;
}

/* The first run compiles and does not count; what it gives tells whether the kernels are right. */
static enum pen_status first_run(struct backend *b, enum vk_product_kind kind, struct measured *m, struct candidate *c,
                                 bool *ret_right, struct pen_error *reterr)
{
    char name[24];
    vk_tuned_text(kind, tuned_of(c), name, sizeof name);
    memset(m->out.data, UNWRITTEN, m->out.bytes);
    enum pen_status status = once(m, c, reterr);
    c->best_ns = UINT64_MAX;
    if (status == PEN_OK) {
        vk_selftest_tamper(name, m->out.data, m->out.bytes);
        status = m->right == NULL ? right_keep(m, reterr) : PEN_OK;
        *ret_right = status == PEN_OK && vk_tune_agrees(b, &m->out, m->right);
    }
    return status;
}

/* One that the device has no room for is left out, and one that computes wrong. */
static enum pen_status candidate_add(struct backend *b, enum vk_family family, uint32_t tile, enum vk_product_kind kind,
                                     struct measured *m, struct pen_error *reterr)
{
    struct candidate *c = &m->candidates[m->count];
    struct pen_error why = {0};
    bool right = false;
    if (m->count + m->wrong_count == CANDIDATES) {
        return PEN_OK;
    }
    b->kernels.only = family;
    b->kernels.tile = tile;
    *c = (struct candidate){.family = family, .tile = tile};
    enum pen_status status = vk_exec_make(m->single.plan, &m->single.env, &c->exec, &why);
    if (status == PEN_ERR_NO_MEMORY || status == PEN_ERR_UNSUPPORTED || status == PEN_ERR_TOO_LARGE) {
        return PEN_OK;
    }
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "%s", why.text);
    }
    status = first_run(b, kind, m, c, &right, reterr);
    if (status == PEN_OK && !right) {
        m->wrong[m->wrong_count++] = tuned_of(c);
        vk_exec_free(c->exec);
    } else {
        m->count++;
    }
    return status;
}

/* What may run such products. */
static void kernels_of(const struct backend *b, enum vk_product_kind kind, struct vk_kernels *ret_kernels)
{
    if (vk_kind_bytes(kind)) {
        vk_kernels_of_bytes(b, ret_kernels);
        return;
    }
    *ret_kernels = b->kernels;
    ret_kernels->weights = kind == VK_PRODUCT_CODES ? VK_WEIGHTS_CODES : VK_WEIGHTS_FLOATS;
}

/* The family by its rules, and every tile or form that it has besides. */
static enum pen_status family_add(struct backend *b, const struct vk_kernels *kernels, enum vk_family family,
                                  enum vk_product_kind kind, struct measured *m, struct pen_error *reterr)
{
    const uint32_t forms = vk_kind_bytes(kind) ? vk_bytes_forms(b, family) : vk_tiles_of(family);
    enum pen_status status = PEN_OK;
    for (uint32_t t = 0; t <= forms && status == PEN_OK; t++) {
        if (t == 0 || vk_tiles_of(family) == 0 || vk_tile_fits(kernels, family, t - 1)) {
            status = candidate_add(b, family, t, kind, m, reterr);
        }
    }
    return status;
}

/* An exec per family that can run the shape. Of bytes `split` would be `tiled` again. */
static enum pen_status candidates_make(struct backend *b, const struct vk_seen *seen, struct measured *m,
                                       struct pen_error *reterr)
{
    const bool bytes = vk_kind_bytes(seen->shape.kind);
    const enum vk_family only = b->kernels.only;
    const uint32_t tile = b->kernels.tile;
    enum pen_status status = PEN_OK;
    struct vk_kernels kernels;
    kernels_of(b, seen->shape.kind, &kernels);
    b->repeats = REPEATS;
    for (uint32_t f = VK_FAMILY_SIMPLE; f < VK_FAMILY_COUNT && status == PEN_OK; f++) {
        if (vk_family_fits(&kernels, (enum vk_family)f, &seen->shape) && !(bytes && f == VK_FAMILY_SPLIT)) {
            status = family_add(b, &kernels, (enum vk_family)f, seen->shape.kind, m, reterr);
        }
    }
    b->kernels.only = only;
    b->kernels.tile = tile;
    b->repeats = 0;
    return status;
}

static enum pen_status turns(struct measured *m, uint64_t class_us, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    uint64_t start = now_ns();
    for (uint32_t round = 0; round < ROUNDS_MOST && status == PEN_OK; round++) {
        if (round >= ROUNDS_LEAST && now_ns() - start > class_us * 1000u) {
            break;
        }
        for (uint32_t i = 0; i < m->count && status == PEN_OK; i++) {
            status = once(m, &m->candidates[i], reterr);
        }
    }
    return status;
}

static void measured_fini(struct measured *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        vk_exec_free(m->candidates[i].exec);
    }
    free(m->in[0].data);
    free(m->in[1].data);
    free(m->out.data);
    free(m->right);
    vk_single_fini(&m->single);
}

static enum pen_status measured_init(struct backend *b, const struct vk_seen *seen, struct measured *m,
                                     struct pen_error *reterr)
{
    const struct vk_product_shape *shape = &seen->shape;
    enum pen_status status =
        shape->kind == VK_PRODUCT_WINDOW
            ? vk_single_conv(b, &seen->window, shape->groups, shape->outs * shape->groups, &m->single, reterr)
        : shape->kind == VK_PRODUCT_CODES ? vk_single_codes(b, shape, &seen->coding, &m->single, reterr)
        : vk_kind_bytes(shape->kind)      ? vk_single_quantised(b, shape, &seen->window, &m->single, reterr)
                                          : vk_single_product(b, shape, &m->single, reterr);
    for (uint32_t i = 0; status == PEN_OK && i < m->single.in_count; i++) {
        status = view_make(&m->single, m->single.in[i], &m->in[i]);
    }
    if (status == PEN_OK) {
        status = view_make(&m->single, m->single.out, &m->out);
    }
    return status;
}

static const struct candidate *of_family(const struct measured *m, enum vk_family family)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->candidates[i].family == family && m->candidates[i].tile == 0) {
            return &m->candidates[i];
        }
    }
    return NULL;
}

/* The fastest, but the rules' own unless it is beaten clearly. NULL when nothing ran. */
static const struct candidate *winner(const struct measured *m, enum vk_family by_rule)
{
    const struct candidate *best = NULL, *usual = of_family(m, by_rule);
    for (uint32_t i = 0; i < m->count; i++) {
        if (best == NULL || m->candidates[i].best_ns < best->best_ns) {
            best = &m->candidates[i];
        }
    }
    bool clear = best != NULL && (usual == NULL || (double)best->best_ns < WORTH * (double)usual->best_ns);
    return clear ? best : usual;
}

static void row_say(const struct vk_seen *seen, const struct measured *m, enum vk_family by_rule,
                    const struct candidate *chosen, pen_tune_row_function *say, void *context)
{
    char class_text[96], shape_text[96], names[CANDIDATES][24], wrong[CANDIDATES][24], chosen_text[24];
    struct pen_tune_row row = {.products = class_text,
                               .shape = shape_text,
                               .by_rule = vk_family_name(by_rule),
                               .chosen = chosen_text,
                               .time_count = m->count,
                               .wrong_count = m->wrong_count};
    const enum vk_product_kind kind = seen->shape.kind;
    vk_tuned_text(kind, tuned_of(chosen), chosen_text, sizeof chosen_text);
    vk_class_text(vk_class_of(&seen->shape), class_text, sizeof class_text);
    snprintf(shape_text, sizeof shape_text, "%zux%zux%zu in %zu", seen->shape.rows, seen->shape.outs, seen->shape.depth,
             seen->shape.groups);
    for (uint32_t i = 0; i < m->count; i++) {
        vk_tuned_text(kind, tuned_of(&m->candidates[i]), names[i], sizeof names[i]);
        row.times[i].family = names[i];
        row.times[i].us = (double)m->candidates[i].best_ns / 1000.0 / REPEATS;
    }
    for (uint32_t i = 0; i < m->wrong_count; i++) {
        vk_tuned_text(kind, m->wrong[i], wrong[i], sizeof wrong[i]);
        row.wrong[i] = wrong[i];
    }
    say(context, &row);
}

/* The family that is taken without a table. */
static enum vk_family family_by_rule(const struct backend *b, const struct vk_product_shape *shape)
{
    struct vk_kernels rules = b->kernels;
    if (vk_kind_bytes(shape->kind)) {
        return vk_bytes_by_rule(b, shape);
    }
    memset(rules.tuned, 0, sizeof rules.tuned);
    rules.only = VK_FAMILY_AUTO;
    return vk_choose(&rules, shape).family;
}

static enum pen_status class_tune(struct backend *b, const struct vk_seen *seen, uint64_t class_us, uint8_t *tuned,
                                  pen_tune_row_function *say, void *context, struct pen_error *reterr)
{
    struct measured m = {0};
    const enum vk_family by_rule = family_by_rule(b, &seen->shape);
    const uint8_t before = *tuned;
    *tuned = VK_FAMILY_AUTO; /* what is measured by the rules is not what was tuned before */
    enum pen_status status = measured_init(b, seen, &m, reterr);
    if (status == PEN_OK) {
        status = candidates_make(b, seen, &m, reterr);
    }
    if (status == PEN_OK) {
        status = turns(&m, class_us, reterr);
    }
    const struct candidate *chosen = status == PEN_OK ? winner(&m, by_rule) : NULL;
    *tuned = chosen != NULL ? tuned_of(chosen) : before;
    if (chosen != NULL) {
        row_say(seen, &m, by_rule, chosen, say, context);
    }
    measured_fini(&m);
    return status;
}

enum pen_status vk_tune(struct backend *b, uint64_t class_us, pen_tune_row_function *say, void *context,
                        bool *ret_stored, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (b->beside_count > 0) { /* their execs take the devices in turn */
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "kernels are tuned on one Vulkan device at a time: name one");
    }
    struct vk_seen *seen = malloc(VK_CLASSES * sizeof *seen);
    if (seen == NULL || b->seen == NULL) {
        free(seen);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory to tune");
    }
    pthread_mutex_lock(&b->lock);
    memcpy(seen, b->seen, VK_CLASSES * sizeof *seen);
    pthread_mutex_unlock(&b->lock);
    for (uint32_t i = 0; i < VK_CLASSES && status == PEN_OK; i++) {
        if (seen[i].macs > 0) {
            status = class_tune(b, &seen[i], class_us, &b->kernels.tuned[i], say, context, reterr);
        }
    }
    free(seen);
    if (status == PEN_OK) {
        const struct vk_cache_key key = vk_cache_key_of(&b->device->info);
        *ret_stored = vk_tune_store(b->cache_dir, &key, vk_backend_precision(b), b->kernels.tuned);
    }
    return status;
}
