/*
 * Any bytes as what a trace is made of: a traceparent, the layers of a result's meta, names and times of a trace. Whatever comes, each form that
 * leaves the broker is JSON. First byte: how the job ended and how often it was lost; second: of its times; the rest is meta and text alike.
 */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "patch.h"
#include "trace_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void context_check(const char *text)
{
    struct trace_context context, again;
    char written[TRACE_PARENT_BYTES + 1];
    if (!trace_context_parse(text, &context))
        return;
    trace_context_write(&context, context.parent_id, written);
    if (strcmp(written, text) != 0 || !trace_context_parse(written, &again))
        abort();
}

static void shapes_check(const struct trace_view *view)
{
    struct span spans[SPANS_MAX];
    size_t count = trace_spans(view->trace, spans);
    for (size_t i = 0; i < count; i++) {
        if (spans[i].parent != SPAN_NONE && spans[i].parent >= i)
            abort(); /* parents come first */
    }
    for (unsigned form = 0; form < TRACE_FORMS; form++) {
        struct writer writer = {.text = NULL};
        trace_write((enum trace_form)form, view, 1, &writer);
        cJSON *json = cJSON_Parse(writer.text);
        if (!json)
            abort();
        cJSON_Delete(json);
        writer_fini(&writer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct result_facts facts;
    struct job_trace trace = {.id = {1, 2}, .reason = "full"};
    char text[256];
    if (size < 2)
        return 0;
    uint8_t how = data[0], times = data[1];
    data += 2;
    size -= 2;
    size_t length = size < sizeof text - 1 ? size : sizeof text - 1;
    if (length)
        memcpy(text, data, length);
    text[length] = '\0';
    context_check(text);
    result_read(data, size, &facts);
    trace.how = (enum finish)(how % 5);
    trace.total_us = (uint64_t)times << (how % 50);
    trace.queue_us = trace.total_us / 3;
    trace.worker_us = trace.total_us / (1u + times % 4);
    trace.transfer_us = trace.total_us / 5;
    trace.compute_us = trace.worker_us / 2;
    trace.gather_us = times;
    trace.wait_us = trace.split_us = times / 2;
    trace.client_us = times % 3 ? times : 0;
    trace.ended_us = trace.total_us;
    memcpy(trace.worker, text, sizeof trace.worker - 1);
    memcpy(trace.error, text, sizeof trace.error - 1);
    trace_context_parse(text, &trace.note.context);
    for (unsigned i = 0; i < how % 7; i++)
        trace_note_attempt(&trace.note, text, times * i, times * (i + 1));
    trace.layers = trace_layers_read(data, size);
    const struct trace_view view = {
        .trace = &trace, .model = text, .backend = text, .precision = "f32", .version = times, .unix_offset_us = 1};
    shapes_check(&view);
    trace_layers_release(trace.layers);
    return 0;
}
