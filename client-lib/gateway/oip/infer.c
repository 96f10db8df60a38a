#include "infer.h"

#include <stdlib.h>
#include <string.h>

#include "content_coding.h"
#include "deadline.h"
#include "infer_count.h"
#include "infer_read.h"
#include "infer_write.h"

#define READ_HERE_BYTES                                                                                                \
    (128u * 1024u) /* of JSON: more than that is read on another thread, so that others do not wait */
#define WRITE_HERE_BYTES (32u * 1024u) /* of tensors written as JSON */

struct exchange {
    struct offload_task task; /* the first member */
    struct gateway *gateway;
    struct http_request *request; /* NULL: the peer has gone */
    struct gateway_session *session;
    unsigned kind;
    bool local, away; /* away: on another thread */
    char model[CALL_NAME_BYTES], version[64], trace[64];
    struct hold *hold;
    const char *body;
    size_t body_bytes, json_bytes;
    bool raw;
    enum content_coding packed, wanted; /* of the request; of the answer */
    uint64_t began_us, input_us, output_us;
    struct inference *inference;
    pen_result *result;
    struct infer_content *content;
    enum pen_status status;
    struct pen_error error;
};

static void exchange_free(void *arg)
{
    struct exchange *exchange = arg;
    inference_free(exchange->inference);
    pen_result_free(exchange->result);
    if (exchange->content)
        bytes_fini(&exchange->content->text);
    free(exchange->content);
    hold_release(exchange->hold);
    exchange->gateway->inferences--;
    free(exchange);
}

/* ---- the end ---- */

static void count(const struct exchange *exchange)
{
    infer_count(&(struct infer_tally){.gateway = exchange->gateway,
                                      .session = exchange->session,
                                      .inference = exchange->inference,
                                      .result = exchange->result,
                                      .model = exchange->model,
                                      .version = exchange->version,
                                      .status = exchange->status,
                                      .began_us = exchange->began_us,
                                      .input_us = exchange->input_us,
                                      .output_us = exchange->output_us});
}

/* A run in debug mode that failed: its log is what was asked for. */
static void fail_with_log(struct exchange *exchange, const char *log)
{
    struct http_answer answer = {.status = http_status_of(exchange->status), .type = "application/json"};
    bytes_text(&answer.text, "{\"error\":");
    bytes_json_text(&answer.text, exchange->error.text);
    bytes_text(&answer.text, ",\"penstock_debug_log\":");
    bytes_json_text(&answer.text, log);
    bytes_text(&answer.text, "}");
    if (answer.text.failed)
        bytes_fini(&answer.text);
    gateway_answer(exchange->gateway, exchange->kind, exchange->request, &answer);
}

static void end_badly(struct exchange *exchange)
{
    const char *log = exchange->result ? pen_result_debug_log(exchange->result) : "";
    count(exchange);
    if (exchange->request)
        exchange->request->gone = NULL;
    if (exchange->request && *log)
        fail_with_log(exchange, log);
    else if (exchange->request)
        gateway_fail(exchange->gateway, exchange->kind, exchange->request, http_status_of(exchange->status),
                     exchange->error.text);
    exchange_free(exchange);
}

#define HEADERS_BYTES 240

/* The trace is told to who named one, for pages that know no more of their request than its answer. */
static void write_headers(const struct exchange *exchange, char text[HEADERS_BYTES])
{
    struct fixed_text headers;
    fixed_begin(&headers, text, HEADERS_BYTES);
    if (exchange->content->binary) {
        fixed_add(&headers, "Inference-Header-Content-Length: ");
        fixed_unsigned(&headers, exchange->content->json_bytes);
        fixed_add(&headers, "\r\n");
    }
    if (exchange->wanted != CODING_NONE) {
        fixed_add(&headers, "Content-Encoding: ");
        fixed_add(&headers, content_coding_name(exchange->wanted));
        fixed_add(&headers, "\r\n");
    }
    if (*exchange->trace) {
        fixed_add(&headers, "traceparent: ");
        fixed_add(&headers, exchange->trace);
        fixed_add(&headers, "\r\n");
    }
}

static void end_well(struct exchange *exchange)
{
    struct infer_content *content = exchange->content;
    char headers[HEADERS_BYTES];
    write_headers(exchange, headers);
    struct http_answer answer = {.status = 200,
                                 .type = content->binary ? "application/octet-stream" : "application/json",
                                 .headers = headers,
                                 .text = content->text,
                                 .parts = content->parts,
                                 .parts_count = content->parts_count,
                                 .release = exchange_free,
                                 .release_arg = exchange};
    content->text = (struct bytes){.data = NULL};
    count(exchange);
    gateway_answer(exchange->gateway, exchange->kind, exchange->request, &answer);
}

/* The peer may have gone while another thread had the exchange. True: it has, and all is freed. */
static bool came_back(struct exchange *exchange)
{
    exchange->away = false;
    if (exchange->request)
        return false;
    exchange_free(exchange);
    return true;
}

static void on_gone(void *arg)
{
    struct exchange *exchange = arg;
    exchange->request = NULL;
    exchange->gateway->cancelled++;
    if (!exchange->away)
        exchange_free(exchange);
}

static void send_away(struct exchange *exchange, struct offload *to, void (*work)(struct offload_task *),
                      void (*done)(struct offload_task *))
{
    exchange->task.work = work;
    exchange->task.done = done;
    exchange->away = true;
    offload_add(to, &exchange->task);
}

/* ---- the answer ---- */

static void write_answer(struct exchange *exchange, const struct listing *listing)
{
    uint64_t from_us = clock_now_us();
    const struct pen_model *model = listing ? listing_find(listing, exchange->model, exchange->version) : NULL;
    exchange->content = malloc(sizeof *exchange->content);
    if (!exchange->content) {
        exchange->status = pen_error_set(&exchange->error, PEN_ERR_NO_MEMORY, "no memory for the answer");
        return;
    }
    memset(exchange->content, 0, sizeof *exchange->content);
    exchange->status = infer_write(exchange->inference, exchange->result, model, exchange->session->regions,
                                   exchange->content, &exchange->error);
    if (exchange->status == PEN_OK && exchange->wanted != CODING_NONE &&
        !infer_content_pack(exchange->content, exchange->wanted))
        exchange->wanted = CODING_NONE;
    exchange->output_us = clock_now_us() - from_us;
}

static void work_write(struct offload_task *task)
{
    struct exchange *exchange = (struct exchange *)task;
    const struct listing *listing = NULL;
    if (infer_classifies(exchange->inference))
        directory_get(exchange->session->directory, exchange->gateway->refresh_us, &listing, NULL);
    write_answer(exchange, listing);
    listing_release(listing);
}

static void finish(struct exchange *exchange)
{
    if (exchange->status == PEN_OK)
        end_well(exchange);
    else
        end_badly(exchange);
}

static void done_write(struct offload_task *task)
{
    struct exchange *exchange = (struct exchange *)task;
    if (!came_back(exchange))
        finish(exchange);
}

static void on_result(struct inference *inference, pen_result *result)
{
    struct exchange *exchange = inference->owner;
    exchange->result = result;
    exchange->status = pen_result_status(result);
    if (exchange->status != PEN_OK) {
        pen_error_set(&exchange->error, exchange->status, "%s", pen_result_error(result));
        end_badly(exchange);
        return;
    }
    bool classes = infer_classifies(inference);
    if (classes || exchange->wanted != CODING_NONE || infer_json_bytes(inference, result) > WRITE_HERE_BYTES) {
        send_away(exchange, classes ? exchange->gateway->questions : exchange->gateway->compute, work_write,
                  done_write);
        return;
    }
    write_answer(exchange, NULL);
    finish(exchange);
}

/* ---- the request ---- */

static enum pen_status unpack(struct exchange *exchange)
{
    char *body = NULL;
    enum pen_status status =
        content_unpack(exchange->packed, exchange->body, exchange->body_bytes, exchange->gateway->body_max,
                       exchange->hold, &body, &exchange->body_bytes, &exchange->error);
    exchange->body = body;
    return status;
}

static enum pen_status read_body(struct exchange *exchange, const struct listing *listing)
{
    bool all = exchange->json_bytes == SIZE_MAX;
    struct infer_source source = {.model = exchange->model,
                                  .version = exchange->version,
                                  .body = exchange->body,
                                  .bytes = exchange->body_bytes,
                                  .json_bytes = all ? exchange->body_bytes : exchange->json_bytes,
                                  .raw = exchange->raw,
                                  .signature =
                                      listing ? listing_find(listing, exchange->model, exchange->version) : NULL,
                                  .regions = exchange->local ? exchange->session->regions : NULL,
                                  .hold = exchange->hold};
    if (source.json_bytes > source.bytes)
        return pen_error_set(&exchange->error, PEN_ERR_INVALID,
                             "Inference-Header-Content-Length says %zu bytes, but the body has %zu", source.json_bytes,
                             source.bytes);
    return infer_read(&source, &exchange->inference, &exchange->error);
}

static void read_request(struct exchange *exchange)
{
    const struct listing *listing = NULL;
    uint64_t from_us = clock_now_us();
    exchange->status = exchange->packed == CODING_NONE ? PEN_OK : unpack(exchange);
    if (exchange->status == PEN_OK && exchange->raw)
        exchange->status =
            directory_get(exchange->session->directory, exchange->gateway->refresh_us, &listing, &exchange->error);
    if (exchange->status == PEN_OK)
        exchange->status = read_body(exchange, listing);
    listing_release(listing);
    exchange->input_us = clock_now_us() - from_us;
}

static void submit(struct exchange *exchange)
{
    struct inference *inference = exchange->inference;
    if (exchange->status != PEN_OK) {
        end_badly(exchange);
        return;
    }
    inference->ended = on_result;
    inference->owner = exchange;
    inference->trace = trace_rules_ask(exchange->gateway->traces, exchange->model);
    inference->traceparent = *exchange->trace ? exchange->trace : NULL;
    exchange->status = inference_submit(inference, exchange->session, &exchange->error);
    if (exchange->status != PEN_OK)
        end_badly(exchange);
}

static void work_read(struct offload_task *task)
{
    read_request((struct exchange *)task);
}

static void done_read(struct offload_task *task)
{
    struct exchange *exchange = (struct exchange *)task;
    if (!came_back(exchange))
        submit(exchange);
}

/* NULL: well. */
static const char *take_headers(struct exchange *exchange, const struct http_head *head)
{
    const char *json = http_head_find(head, "Inference-Header-Content-Length"),
               *parent = http_head_find(head, "traceparent");
    exchange->packed = content_coding_parse(http_head_find(head, "Content-Encoding"));
    exchange->wanted = content_coding_choose(http_head_find(head, "Accept-Encoding"));
    exchange->json_bytes = SIZE_MAX;
    if (parent && strlen(parent) < sizeof exchange->trace)
        memcpy(exchange->trace, parent, strlen(parent) + 1);
    if (exchange->packed == CODING_UNKNOWN)
        return "Content-Encoding is gzip, deflate or identity here";
    if (!json || !*json)
        return NULL;
    if (strspn(json, "0123456789") != strlen(json) || strlen(json) > 18)
        return "Unable to parse Inference-Header-Content-Length: it is no number";
    exchange->json_bytes = strtoull(json, NULL, 10);
    exchange->raw = exchange->json_bytes == 0;
    return NULL;
}

static struct exchange *exchange_new(const struct call *call)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->gateway = call->gateway;
    exchange->request = call->request;
    exchange->session = call->session;
    exchange->kind = call->kind;
    exchange->local = call->local;
    exchange->hold = call->request->hold ? call->request->hold : hold_new();
    exchange->body = call->request->body;
    exchange->body_bytes = call->request->body_bytes;
    exchange->began_us = call->request->began_us;
    memcpy(exchange->model, call->model, sizeof exchange->model);
    memcpy(exchange->version, call->version, sizeof exchange->version);
    call->request->hold = NULL;
    call->gateway->inferences++;
    return exchange;
}

void infer_begin(const struct call *call)
{
    struct exchange *exchange = exchange_new(call);
    const char *why = exchange ? take_headers(exchange, &call->request->head) : NULL;
    if (!exchange || !exchange->hold) {
        gateway_fail(call->gateway, call->kind, call->request, 503, "no memory for the request");
        if (exchange)
            exchange_free(exchange);
        return;
    }
    exchange->request->waiter = exchange;
    exchange->request->gone = on_gone;
    size_t json = exchange->json_bytes == SIZE_MAX ? exchange->body_bytes : exchange->json_bytes;
    if (why) {
        exchange->status = pen_error_set(&exchange->error, PEN_ERR_INVALID, "%s", why);
        end_badly(exchange);
    } else if (exchange->raw || exchange->packed != CODING_NONE || json > READ_HERE_BYTES) {
        send_away(exchange, exchange->raw ? exchange->gateway->questions : exchange->gateway->compute, work_read,
                  done_read);
    } else {
        read_request(exchange);
        submit(exchange);
    }
}
