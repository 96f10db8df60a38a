#include "tools/verify.h"
#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *outcome_name(enum outcome outcome)
{
    static const char *const names[] = {"pass", "fail", "skip"};
    return names[outcome];
}

void verify_reason(struct verify_result *r, const char *text)
{
    snprintf(r->reason, sizeof r->reason, "%.*s", (int)sizeof r->reason - 1, text);
    for (char *p = r->reason; *p != '\0'; p++) {
        *p = (unsigned char)*p < ' ' ? ' ' : *p;
    }
}

/* How far rounding alone moves this output, as a share of its range; found by trial, once it is asked for. `path`: of the model. */
static double own_noise(const char *path, struct case_set *set, uint32_t index)
{
    if (!set->noise_known) {
        set->noise_known = true;
        (void)case_noise(path, set, set->own_noise);
    }
    return set->own_noise[index];
}

/* Is the golden itself no more exact than that? c: why the answer does not fit. */
static bool noise_explains(const char *path, struct case_set *set, const struct rt_value *output, uint32_t index,
                           const struct tolerance *tolerance, const char *name, struct comparison *c,
                           struct verify_result *r)
{
    char text[sizeof r->reason];
    bool coarse = set->step[index] > 0 && !compare_fine(&set->expected[index], set->step[index]);
    double noise =
        coarse ? 0 : own_noise(path, set, index); /* steps of bytes are wider than what rounding floats does */
    bool more = noise > set->noise[index] && noise <= CASE_NOISE_MAX;
    bool fits = more && compare_value(output, &set->expected[index], tolerance, noise, set->step[index], name, c);
    if (fits) {
        snprintf(text, sizeof text, "within the golden's noise: rounding alone moves output %s by %.2g of its range",
                 name, noise);
    } else if (noise > 0) {
        snprintf(text, sizeof text, "%s; rounding alone moves it by %.2g of its range", c->reason, noise);
    }
    verify_reason(r, fits || noise > 0 ? text : c->reason);
    return fits;
}

/* path: of the model. */
static enum outcome set_run(struct pen_session *session, const struct pen_model *model, const char *path,
                            struct case_set *set, const struct tolerance *tolerance, struct comparison *c,
                            struct verify_result *r)
{
    struct rt_value outputs[CASE_VALUES_MAX];
    struct pen_error error = {0};
    size_t declared = 0;
    const struct pen_tensor *sigs = pen_model_outputs(model, &declared);
    if (set->expected_count != declared || declared > CASE_VALUES_MAX) {
        snprintf(r->reason, sizeof r->reason, "the case expects %u %s, the model gives %zu", set->expected_count,
                 words_plural(set->expected_count, "output", "outputs"), declared);
        return CASE_FAIL;
    }
    enum pen_status status =
        session_run_values(session, set->inputs, set->input_count, outputs, CASE_VALUES_MAX, &error);
    if (status != PEN_OK) {
        verify_reason(r, error.text[0] != '\0' ? error.text : pen_status_name(status));
        return status == PEN_ERR_UNSUPPORTED ? CASE_SKIP : CASE_FAIL;
    }
    for (uint32_t i = 0; i < set->expected_count; i++) {
        bool fits =
            compare_value(&outputs[i], &set->expected[i], tolerance, set->noise[i], set->step[i], sigs[i].name, c);
        if (!fits && !c->numeric) {
            verify_reason(r, c->reason);
        }
        if (!fits && (!c->numeric || !noise_explains(path, set, &outputs[i], i, tolerance, sigs[i].name, c, r))) {
            return CASE_FAIL;
        }
    }
    return CASE_PASS;
}

static enum outcome sets_run(const struct case_ref *ref, const char *path, struct pen_model *model,
                             enum pen_precision precision, struct verify_result *r)
{
    struct pen_error error = {0};
    struct pen_session *session = NULL;
    struct comparison c = {0};
    struct case_set *set = malloc(sizeof *set);
    struct rt_arena arena;
    rt_arena_init(&arena, (uint64_t)8 << 30);
    enum outcome outcome = CASE_PASS;
    uint32_t sets = case_sets(ref);
    if (set == NULL || sets == 0 || pen_session_new(model, &session, &error) != PEN_OK) {
        verify_reason(r, set == NULL ? "no memory for a data set" : sets == 0 ? "no test_data_set_0" : error.text);
        outcome = CASE_FAIL;
    }
    for (uint32_t i = 0; outcome == CASE_PASS && i < sets; i++) {
        struct tolerance tolerance;
        rt_arena_reset(&arena);
        if (case_read(ref, i, model, precision, &arena, set, &tolerance, &error) != PEN_OK) {
            verify_reason(r, error.text);
            outcome = CASE_FAIL;
        } else {
            outcome = set_run(session, model, path, set, &tolerance, &c, r);
        }
    }
    r->max_abs = c.max_abs;
    r->max_rel = c.max_rel;
    pen_session_free(session);
    rt_arena_fini(&arena);
    free(set);
    return outcome;
}

void verify_case(struct pen_engine *engine, const struct case_ref *ref, bool want_ops, struct verify_result *ret)
{
    struct pen_error error = {0};
    struct pen_model *model = NULL;
    struct rt_arena arena;
    uint64_t start = tool_now_us();
    rt_arena_init(&arena, (uint64_t)4 << 30);
    const char *path = case_model_path(ref, &arena, &error);
    enum pen_status status = path != NULL ? pen_model_load(engine, path, &model, &error) : PEN_ERR_CORRUPT;
    if (status == PEN_OK) {
        ret->outcome = sets_run(ref, path, model, pen_engine_precision(engine), ret);
    } else {
        verify_reason(ret, error.text[0] != '\0' ? error.text : pen_status_name(status));
        ret->outcome = status == PEN_ERR_UNSUPPORTED ? CASE_SKIP : CASE_FAIL;
    }
    if (want_ops && path != NULL) {
        case_ops_read(path, model, &arena, &ret->ops);
    }
    pen_model_free(model);
    rt_arena_fini(&arena);
    ret->took_us = tool_now_us() - start;
}
