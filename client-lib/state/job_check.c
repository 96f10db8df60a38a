#include "job_check.h"

#include <math.h>
#include <string.h>

#include "classes.h"
#include "frame.h"
#include "words.h"

#define NAME_BYTES_MAX 255u

static enum pen_status check_name(const char *what, const char *name, struct pen_error *reterr)
{
    size_t length = name ? strnlen(name, NAME_BYTES_MAX + 1) : 0;
    if (length == 0 || length > NAME_BYTES_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s %s needs a name of 1 to %u bytes.", words_article(what), what,
                             NAME_BYTES_MAX);
    }
    return PEN_OK;
}

static enum pen_status check_inputs(const struct pen_job_options *o, size_t *ret_bytes, struct pen_error *reterr)
{
    size_t bytes = 0;
    for (size_t i = 0; i < o->inputs_count; i++) {
        const struct pen_tensor *t = &o->inputs[i];
        enum pen_status status = check_name("input tensor", t->name, reterr);
        status = status == PEN_OK ? pen_tensor_check(t, reterr) : status;
        if (status != PEN_OK) {
            return status;
        }
        if (t->bytes && !t->data) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "input \"%s\" has %zu bytes but no data.", t->name, t->bytes);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(o->inputs[k].name, t->name) == 0) {
                return pen_error_set(reterr, PEN_ERR_INVALID, "input \"%s\" is given twice.", t->name);
            }
        }
        if (bytes > SIZE_MAX - t->bytes) {
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the inputs together exceed the address space.");
        }
        bytes += t->bytes;
    }
    *ret_bytes = bytes;
    return PEN_OK;
}

static enum pen_status check_lists(const struct pen_job_options *o, struct pen_error *reterr)
{
    struct job_id detached;
    if (o->detached && job_id_parse(o->detached, &detached) != 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "\"%.64s\" " JOB_ID_REFUSED ".", o->detached);
    }
    if (o->detached_secret && (!*o->detached_secret || strlen(o->detached_secret) > DETACHED_SECRET_MAX)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the secret of a detached job has 1 to %d bytes.",
                             DETACHED_SECRET_MAX);
    }
    enum pen_status status = o->detached ? PEN_OK : check_name("model", o->model, reterr);
    for (size_t i = 0; status == PEN_OK && i < o->outputs_count; i++) {
        status = check_name("requested output", o->outputs[i], reterr);
    }
    for (size_t i = 0; status == PEN_OK && i < o->tags_count; i++) {
        status = check_name("tag", o->tags[i], reterr);
    }
    for (size_t i = 0; status == PEN_OK && i < o->needs_count; i++) {
        status = check_name("required flag", o->needs[i], reterr);
    }
    for (size_t i = 0; status == PEN_OK && i < o->parameters_count; i++) {
        const struct pen_parameter *p = &o->parameters[i];
        status = check_name("parameter", p->name, reterr);
        if (status == PEN_OK && p->kind == PEN_PARAMETER_TEXT && !p->value.text) {
            status = pen_error_set(reterr, PEN_ERR_INVALID, "parameter \"%s\" is a text without a value.", p->name);
        }
    }
    return status;
}

enum pen_status job_check(const struct pen_job_options *o, size_t *ret_bytes, struct pen_error *reterr)
{
    struct cap {
        const char *what;
        size_t count, most;
        const void *items;
    } caps[] = {{"inputs", o->inputs_count, FRAME_MAX_TENSORS, o->inputs},
                {"requested outputs", o->outputs_count, FRAME_MAX_TENSORS, o->outputs},
                {"parameters", o->parameters_count, JOB_PARAMETERS_MAX, o->parameters},
                {"tags", o->tags_count, JOB_TAGS_MAX, o->tags},
                {"required flags", o->needs_count, JOB_TAGS_MAX, o->needs}};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        if (caps[i].count > caps[i].most) {
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a job has %zu %s; at most %zu are allowed.", caps[i].count,
                                 caps[i].what, caps[i].most);
        }
        if (caps[i].count && !caps[i].items) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "a job counts %zu %s but gives none.", caps[i].count,
                                 caps[i].what);
        }
    }
    if ((unsigned)o->precision >= PRECISION_COUNT) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "precision %u is unknown.", (unsigned)o->precision);
    }
    if (o->max_relative_error != 0.0 && !(isfinite(o->max_relative_error) && o->max_relative_error > 0.0)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "max_relative_error is %g; it must be a number above 0.",
                             o->max_relative_error);
    }
    if (o->f32_exact && o->precision != PEN_PRECISION_F32) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "f32_exact needs precision f32.");
    }
    if (o->top_k > CLASSES_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "top_k %u: at most %u classes can be told.", o->top_k,
                             CLASSES_MAX);
    }
    enum pen_status status = check_lists(o, reterr);
    return status == PEN_OK ? check_inputs(o, ret_bytes, reterr) : status;
}
