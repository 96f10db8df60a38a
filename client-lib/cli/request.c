#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void value_parse(const char *text, struct pen_parameter *p)
{
    char *end;
    errno = 0;
    long long integer = strtoll(text, &end, 10);
    if (end != text && !*end && !errno) {
        p->kind = PEN_PARAMETER_INTEGER;
        p->value.integer = integer;
        return;
    }
    double number = strtod(text, &end);
    if (end != text && !*end) {
        p->kind = PEN_PARAMETER_NUMBER;
        p->value.number = number;
    } else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        p->kind = PEN_PARAMETER_FLAG;
        p->value.flag = *text == 't';
    } else {
        p->kind = PEN_PARAMETER_TEXT;
        p->value.text = text;
    }
}

static enum pen_status parameters_parse(const struct setting_list *list, struct request *r, struct pen_error *reterr)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        size_t length = equals ? (size_t)(equals - list->items[i]) : 0;
        if (!length || length >= sizeof r->names[i]) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "--parameter %s: it must be NAME=VALUE.", list->items[i]);
        }
        snprintf(r->names[i], sizeof r->names[i], "%.*s", (int)length, list->items[i]);
        r->parameters[i].name = r->names[i];
        value_parse(equals + 1, &r->parameters[i]);
    }
    r->options.parameters = r->parameters;
    r->options.parameters_count = list->count;
    return PEN_OK;
}

enum pen_status request_make(const struct request_settings *s, struct request *r, struct pen_error *reterr)
{
    pen_job_options_init(&r->options, sizeof r->options);
    r->options.version = (uint64_t)s->version;
    r->options.version_label = s->version_label && *s->version_label ? s->version_label : NULL;
    r->options.outputs = s->outputs.count ? s->outputs.items : NULL;
    r->options.outputs_count = s->outputs.count;
    r->options.tags = s->tags.count ? s->tags.items : NULL;
    r->options.tags_count = s->tags.count;
    r->options.needs = s->needs.count ? s->needs.items : NULL;
    r->options.needs_count = s->needs.count;
    r->options.deadline_us = (uint64_t)s->deadline_us;
    r->options.priority = (uint8_t)s->priority;
    r->options.backend = *s->backend ? s->backend : NULL;
    r->options.sequence_id = (uint64_t)s->sequence;
    r->options.flags = (s->no_cache ? PEN_JOB_NO_CACHE : 0u) | (s->explain ? PEN_JOB_EXPLAIN : 0u) |
                       (s->trace ? PEN_JOB_TRACE : 0u) | (s->layers ? PEN_JOB_LAYERS : 0u) |
                       (s->debug ? PEN_JOB_DEBUG : 0u);
    if (s->sequence) /* a sequence of one job; submit has several */
        r->options.flags |= PEN_JOB_SEQUENCE_START | PEN_JOB_SEQUENCE_END;
    r->options.traceparent = s->traceparent && *s->traceparent ? s->traceparent : NULL;
    enum pen_status status = pen_job_options_precision(&r->options, s->precision, reterr);
    if (status != PEN_OK) {
        char why[PEN_ERROR_TEXT_BYTES];
        snprintf(why, sizeof why, "%s", reterr ? reterr->text : "");
        return pen_error_set(reterr, status, "--precision: %.900s", why);
    }
    return parameters_parse(&s->parameters, r, reterr);
}
