#include "run/measure_kept.h"

#include <string.h>

#define KEPT_BYTES 32u /* largest, mean, inputs, source, repeatable: as they are written */

/* ---- the key ---- */

void measure_key_inputs(struct digest_stream *key, const struct pen_measure_inputs *inputs, size_t count)
{
    digest_update_u64(key, inputs->sets);
    for (size_t i = 0; i < inputs->sets * count; i++) {
        const struct pen_tensor *t = &inputs->tensors[i];
        digest_update_u64(key, t->dtype);
        for (uint32_t d = 0; d < t->rank; d++) {
            digest_update_u64(key, (uint64_t)t->dims[d]);
        }
        digest_update(key, t->data, t->bytes);
    }
    for (size_t i = 0; inputs->sets == 0 && i < count; i++) {
        for (uint32_t d = 0; d < inputs->shapes[i].rank; d++) {
            digest_update_u64(key, (uint64_t)inputs->shapes[i].dims[d]);
        }
        if (inputs->ranges != NULL) {
            digest_update(key, &inputs->ranges[i], sizeof inputs->ranges[i]);
        }
    }
}

static void text_add(struct digest_stream *key, const char *text)
{
    digest_update_text(key, text != NULL ? text : "");
}

/* Flags that change no number: they follow the host and its load. */
static bool is_indifferent(const char *flag)
{
    static const char *const names[] = {"threads", "pin", "budget_bytes", "vk_cache_dir", "keep_measured"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(flag, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void flags_digest(struct digest_stream *key, const struct pen_engine *e)
{
    size_t count = 0;
    const struct pen_flag_row *rows = pen_flag_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (!is_indifferent(rows[i].name)) {
            text_add(key, rows[i].name);
            text_add(key, pen_env_get(e->env, rows[i].name));
        }
    }
}

/* What the processor has: XNNPACK chooses its kernels by it, whatever our own are called. How many processors there are changes no number. */
static void processor_digest(struct digest_stream *key, const struct pen_engine *e)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(e, &count);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(flags[i].name, "cpu_", 4) == 0 && strcmp(flags[i].name, "cpu_count") != 0 &&
            strcmp(flags[i].name, "cpu_cores") != 0) {
            text_add(key, flags[i].name);
            text_add(key, flags[i].value);
        }
    }
}

void measure_key_model(struct digest_stream *key, const struct pen_model *m)
{
    const struct pen_engine *e = m->engine;
    text_add(key, pen_engine_backend(e));
    text_add(key, pen_engine_device(e));
    text_add(key, pen_engine_library(e));
    text_add(key, pen_engine_isa(e));
    text_add(key, m->placement);
    processor_digest(key, e);
    flags_digest(key, e);
    digest_update_u64(key, m->precision);
}

/* ---- what is kept ---- */

struct kept_error {
    double largest, mean;
    uint32_t inputs, source, repeatable, none;
};
_Static_assert(sizeof(struct kept_error) == KEPT_BYTES, "what is kept has no holes; the file's digest has the build in "
                                                        "its key, so that no other layout is ever read");

static bool sound(const struct kept_error *k, size_t bytes)
{
    return bytes == sizeof *k && k->largest >= 0.0 && k->mean >= 0.0 && k->mean <= k->largest && k->inputs > 0 &&
           (k->source == PEN_MEASURED_CALIBRATION || k->source == PEN_MEASURED_SEEDED) && k->repeatable <= 1 &&
           k->none == 0;
}

bool measure_kept_find(const struct memo *memo, const struct digest *key, struct pen_measured *ret_measured)
{
    struct kept_error kept = {0};
    size_t bytes = 0;
    if (!memo_find(memo, key, MEMO_ERROR, &kept, sizeof kept, &bytes) || !sound(&kept, bytes)) {
        return false;
    }
    memo_count_found();
    *ret_measured = (struct pen_measured){.largest = kept.largest,
                                          .mean = kept.mean,
                                          .inputs = kept.inputs,
                                          .source = (enum pen_measured_source)kept.source,
                                          .repeatable = kept.repeatable != 0};
    return true;
}

bool measure_kept_put(const struct memo *memo, const struct digest *key, const struct pen_measured *found)
{
    const struct kept_error kept = {.largest = found->largest,
                                    .mean = found->mean,
                                    .inputs = found->inputs,
                                    .source = found->source,
                                    .repeatable = found->repeatable};
    memo_count_made();
    return memo_put(memo, key, MEMO_ERROR, &kept, sizeof kept);
}
