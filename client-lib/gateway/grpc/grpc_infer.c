#include "grpc_infer.h"

#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "infer_count.h"
#include "infer_write.h"

#define READ_HERE_BYTES (1024u * 1024u) /* larger messages are read on another thread, so that others do not wait */

struct grpc_exchange {
    struct offload_task task; /* the first member */
    struct gateway *gateway;
    struct grpc_request *request; /* NULL: the peer has gone */
    struct gateway_session *session;
    unsigned kind;
    bool local, away; /* away: on another thread */
    struct grpc_infer_form form;
    char trace[GRPC_TRACE_BYTES];
    struct hold *message_hold; /* of the message as it came; NULL once it is read */
    const char *message;
    size_t message_bytes;
    enum content_coding packed, wanted; /* of the message; of the answer */
    struct hold *hold;                  /* of what was read from it */
    uint64_t began_us, deadline_us, input_us, output_us;
    struct inference *inference;
    pen_result *result;
    struct grpc_content *content;
    enum pen_status status;
    struct pen_error error;
};

static void exchange_free(void *arg)
{
    struct grpc_exchange *exchange = arg;
    inference_free(exchange->inference);
    pen_result_free(exchange->result);
    if (exchange->content)
        bytes_fini(&exchange->content->text);
    free(exchange->content);
    hold_release(exchange->message_hold);
    hold_release(exchange->hold);
    exchange->gateway->inferences--;
    free(exchange);
}

/* ---- the end ---- */

static void count(const struct grpc_exchange *exchange)
{
    if (exchange->inference)
        infer_count(&(struct infer_tally){.gateway = exchange->gateway,
                                          .session = exchange->session,
                                          .inference = exchange->inference,
                                          .result = exchange->result,
                                          .model = exchange->inference->model,
                                          .version = exchange->inference->version,
                                          .status = exchange->status,
                                          .began_us = exchange->began_us,
                                          .input_us = exchange->input_us,
                                          .output_us = exchange->output_us});
}

/* A stream goes on after a request that failed. */
static void end_badly(struct grpc_exchange *exchange)
{
    struct gateway *gateway = exchange->gateway;
    struct grpc_answer answer = {.parts = NULL};
    enum grpc_code code = grpc_code_of(exchange->status);
    count(exchange);
    if (exchange->request && exchange->form.stream) {
        gateway->grpc_answers[exchange->kind][code]++;
        grpc_infer_write_error(exchange->inference ? exchange->inference->id : NULL, exchange->error.text,
                               &answer.text);
        grpc_send(exchange->request, &answer, GRPC_NEXT);
    } else if (exchange->request) {
        grpc_refuse(gateway, exchange->kind, exchange->request, code, exchange->error.text);
    }
    exchange_free(exchange);
}

static void end_well(struct grpc_exchange *exchange)
{
    struct grpc_content *content = exchange->content;
    struct grpc_answer answer = {.text = content->text,
                                 .parts = content->parts,
                                 .parts_count = content->parts_count,
                                 .packed = content->packed,
                                 .release = exchange_free,
                                 .release_arg = exchange};
    content->text = (struct bytes){.data = NULL};
    count(exchange);
    grpc_reply(exchange->gateway, exchange->kind, exchange->request, &answer,
               exchange->form.stream ? GRPC_NEXT : GRPC_LAST);
}

static void finish(struct grpc_exchange *exchange)
{
    if (exchange->status == PEN_OK)
        end_well(exchange);
    else
        end_badly(exchange);
}

/* The peer may have gone while another thread had the exchange. True: it has, and all is freed. */
static bool came_back(struct grpc_exchange *exchange)
{
    exchange->away = false;
    if (exchange->request)
        return false;
    exchange_free(exchange);
    return true;
}

static void on_exchange_gone(void *arg)
{
    struct grpc_exchange *exchange = arg;
    exchange->request = NULL;
    exchange->gateway->cancelled++;
    if (!exchange->away)
        exchange_free(exchange);
}

static void send_away(struct grpc_exchange *exchange, struct offload *to, void (*work)(struct offload_task *),
                      void (*done)(struct offload_task *))
{
    exchange->task.work = work;
    exchange->task.done = done;
    exchange->away = true;
    offload_add(to, &exchange->task);
}

/* ---- the answer ---- */

static void write_answer(struct grpc_exchange *exchange, const struct listing *listing)
{
    uint64_t from_us = clock_now_us();
    const struct inference *inference = exchange->inference;
    const struct pen_model *model = listing ? listing_find(listing, inference->model, inference->version) : NULL;
    exchange->content = calloc(1, sizeof *exchange->content);
    if (!exchange->content) {
        exchange->status = pen_error_set(&exchange->error, PEN_ERR_NO_MEMORY, "no memory for the answer");
        return;
    }
    exchange->status = grpc_infer_write(inference, exchange->result, model, exchange->session->regions, exchange->form,
                                        exchange->content, &exchange->error);
    if (exchange->status == PEN_OK && exchange->wanted != CODING_NONE)
        grpc_content_pack(exchange->content, exchange->wanted);
    exchange->output_us = clock_now_us() - from_us;
}

/* Classes need the model's labels, and so the listing; packing takes its time. */
static void work_write(struct offload_task *task)
{
    struct grpc_exchange *exchange = (struct grpc_exchange *)task;
    const struct listing *listing = NULL;
    if (infer_classifies(exchange->inference))
        directory_get(exchange->session->directory, exchange->gateway->refresh_us, &listing, NULL);
    write_answer(exchange, listing);
    listing_release(listing);
}

static void done_write(struct offload_task *task)
{
    struct grpc_exchange *exchange = (struct grpc_exchange *)task;
    if (!came_back(exchange))
        finish(exchange);
}

static void on_result(struct inference *inference, pen_result *result)
{
    struct grpc_exchange *exchange = inference->owner;
    exchange->result = result;
    exchange->status = pen_result_status(result);
    if (exchange->status != PEN_OK) {
        pen_error_set(&exchange->error, exchange->status, "%s", pen_result_error(result));
        end_badly(exchange);
    } else if (infer_classifies(inference)) {
        send_away(exchange, exchange->gateway->questions, work_write, done_write);
    } else if (exchange->wanted != CODING_NONE) {
        send_away(exchange, exchange->gateway->compute, work_write, done_write);
    } else {
        write_answer(exchange, NULL);
        finish(exchange);
    }
}

/* ---- the request ---- */

static void read_request(struct grpc_exchange *exchange)
{
    uint64_t from_us = clock_now_us();
    struct grpc_infer_source source = {.message = exchange->message,
                                       .bytes = exchange->message_bytes,
                                       .regions = exchange->local ? exchange->session->regions : NULL,
                                       .hold = exchange->hold};
    bool final = false;
    exchange->status = grpc_inflate(exchange->packed, &source.message, &source.bytes, exchange->gateway->body_max,
                                    exchange->hold, &exchange->error);
    if (exchange->status == PEN_OK)
        exchange->status = grpc_infer_read(&source, &exchange->inference, &final, &exchange->error);
    exchange->form.final = final && exchange->form.stream;
    hold_release(exchange->message_hold);
    exchange->message_hold = NULL;
    exchange->input_us = clock_now_us() - from_us;
}

/* What is left of grpc-timeout, or what the request says, whichever is less. */
static void set_deadline(struct grpc_exchange *exchange)
{
    struct inference *inference = exchange->inference;
    uint64_t now_us = clock_now_us();
    if (!exchange->deadline_us)
        return;
    uint64_t left_us = exchange->deadline_us > now_us ? exchange->deadline_us - now_us : 1;
    if (!inference->timeout_us || inference->timeout_us > left_us)
        inference->timeout_us = left_us;
}

static void submit(struct grpc_exchange *exchange)
{
    struct inference *inference = exchange->inference;
    if (exchange->status != PEN_OK) {
        end_badly(exchange);
        return;
    }
    set_deadline(exchange);
    inference->ended = on_result;
    inference->owner = exchange;
    inference->trace = trace_rules_ask(exchange->gateway->traces, inference->model);
    inference->traceparent = *exchange->trace ? exchange->trace : NULL;
    exchange->status = inference_submit(inference, exchange->session, &exchange->error);
    if (exchange->status != PEN_OK)
        end_badly(exchange);
    else
        grpc_next(exchange->request); /* in their order: a sequence's requests are submitted one after the other */
}

static void work_read(struct offload_task *task)
{
    read_request((struct grpc_exchange *)task);
}

static void done_read(struct offload_task *task)
{
    struct grpc_exchange *exchange = (struct grpc_exchange *)task;
    if (!came_back(exchange))
        submit(exchange);
}

static struct grpc_exchange *exchange_new(const struct grpc_who *who, bool stream)
{
    struct grpc_exchange *exchange = calloc(1, sizeof *exchange);
    struct grpc_request *request = who->request;
    if (!exchange || !(exchange->hold = hold_new())) {
        free(exchange);
        return NULL;
    }
    exchange->gateway = who->gateway;
    exchange->request = request;
    exchange->session = who->session;
    exchange->kind = who->kind;
    exchange->local = request->local;
    exchange->form.stream = stream;
    exchange->message_hold = request->hold;
    exchange->message = request->message;
    exchange->message_bytes = request->message_bytes;
    exchange->packed = request->packed;
    exchange->wanted = request->wanted;
    exchange->began_us = request->began_us;
    exchange->deadline_us = request->deadline_us;
    memcpy(exchange->trace, request->traceparent, strlen(request->traceparent) + 1);
    request->hold = NULL;
    who->gateway->inferences++;
    return exchange;
}

static void begin(const struct grpc_who *who, bool stream)
{
    struct grpc_exchange *exchange = exchange_new(who, stream);
    if (!exchange) {
        grpc_refuse(who->gateway, who->kind, who->request, GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
        return;
    }
    exchange->request->waiter = exchange;
    exchange->request->gone = on_exchange_gone;
    if (exchange->message_bytes > READ_HERE_BYTES || exchange->packed != CODING_NONE) {
        send_away(exchange, exchange->gateway->compute, work_read, done_read);
    } else {
        read_request(exchange);
        submit(exchange);
    }
}

void grpc_infer_begin(const struct grpc_who *who)
{
    begin(who, false);
}

void grpc_infer_next(const struct grpc_who *who)
{
    if (who->request->ended)
        grpc_refuse(who->gateway, who->kind, who->request, GRPC_OK, "");
    else
        begin(who, true);
}
