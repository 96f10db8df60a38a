/* job_meta.c - turns parameters into unambiguous texts, and computes the request digest with them. */
#include "job_meta.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PARAMETERS_MAX 64u

/*
 * A double in C99's %a form, spelt out because printf's follows the process's locale and leaves the leading digit open:
 * sign, "0x1." and the fraction's hex digits without trailing zeros (no '.' when none are left), "p", signed decimal exponent.
 * Subnormals begin with "0x0." and end in p-1022; zero is "0x0p+0"; then "inf" and, whatever its sign and payload, "nan".
 */
static void number_text(double number, char *text, size_t bytes)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    const char *sign = bits >> 63 ? "-" : "";
    int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
    uint64_t fraction = bits & 0xFFFFFFFFFFFFFu;
    bool normal = exponent > -1023;
    if (isnan(number)) {
        snprintf(text, bytes, "d:nan");
        return;
    }
    if (isinf(number)) {
        snprintf(text, bytes, "d:%sinf", sign);
        return;
    }
    char digits[20];
    int count = snprintf(digits, sizeof digits, ".%013" PRIx64, fraction);
    while (count > 0 && (digits[count - 1] == '0' || digits[count - 1] == '.'))
        digits[--count] = '\0';
    snprintf(text, bytes, "d:%s0x%d%sp%+d", sign, normal, digits, normal ? exponent : fraction ? -1022 : 0);
}

const char *parameter_text(const Penstock__Parameter *parameter, char text[PARAMETER_TEXT_BYTES])
{
    switch (parameter->value_case) {
    case PENSTOCK__PARAMETER__VALUE_INTEGER:
        snprintf(text, PARAMETER_TEXT_BYTES, "i:%" PRId64, parameter->integer);
        break;
    case PENSTOCK__PARAMETER__VALUE_NUMBER:
        number_text(parameter->number, text, PARAMETER_TEXT_BYTES);
        break;
    case PENSTOCK__PARAMETER__VALUE_FLAG:
        snprintf(text, PARAMETER_TEXT_BYTES, "b:%d", parameter->flag != 0);
        break;
    default:
        snprintf(text, PARAMETER_TEXT_BYTES, "s:");
        break;
    }
    return text;
}

/* The whole text of a value, in the arena. */
static const char *parameter_keep(const Penstock__Parameter *parameter, struct meta_arena *arena)
{
    char prefix[PARAMETER_TEXT_BYTES];
    const char *rest = parameter->value_case == PENSTOCK__PARAMETER__VALUE_TEXT ? parameter->text : "";
    size_t prefix_bytes = strlen(parameter_text(parameter, prefix)), rest_bytes = strlen(rest);
    char *kept = arena->allocator.alloc(arena->allocator.allocator_data, prefix_bytes + rest_bytes + 1);
    if (!kept)
        return NULL;
    memcpy(kept, prefix, prefix_bytes);
    memcpy(kept + prefix_bytes, rest, rest_bytes + 1);
    return kept;
}

enum pen_status job_meta_digest(enum digest_kind kind, const Penstock__JobMeta *meta, const struct pen_tensor *inputs,
                                struct meta_arena *arena, struct digest *ret_digest)
{
    struct digest_parameter parameters[PARAMETERS_MAX];
    if (meta->n_parameters > PARAMETERS_MAX)
        return PEN_ERR_TOO_LARGE;
    for (size_t i = 0; i < meta->n_parameters; i++) {
        parameters[i].name = meta->parameters[i]->name;
        parameters[i].value = parameter_keep(meta->parameters[i], arena);
        if (!parameters[i].value)
            return PEN_ERR_NO_MEMORY;
    }
    const struct digest_asked asked = {.inputs = inputs,
                                       .inputs_count = meta->n_inputs,
                                       .outputs = (const char *const *)meta->outputs,
                                       .outputs_count = meta->n_outputs,
                                       .parameters = parameters,
                                       .parameters_count = meta->n_parameters,
                                       .top_k = meta->top_k};
    return digest_request(kind, &asked, ret_digest);
}
