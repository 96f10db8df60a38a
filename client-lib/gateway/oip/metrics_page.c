/* metrics_page.c - /metrics in the text form of Prometheus. */
#include <inttypes.h>

#include "calls.h"
#include "deadline.h"

static void head(struct bytes *to, const char *name, const char *type, const char *help)
{
    bytes_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct bytes *to, const char *name, const char *type, const char *help, uint64_t value)
{
    head(to, name, type, help);
    bytes_format(to, "%s %" PRIu64 "\n", name, value);
}

static void write_requests(const struct gateway *gateway, struct bytes *to)
{
    head(to, "penstock_gateway_requests_total", "counter", "requests answered, by call and class of the status");
    for (unsigned kind = 0; call_name(kind); kind++)
        for (unsigned digit = 0; digit < 6; digit++)
            if (gateway->answers[kind][digit])
                bytes_format(to, "penstock_gateway_requests_total{call=\"%s\",status=\"%uxx\"} %" PRIu64 "\n",
                             call_name(kind), digit, gateway->answers[kind][digit]);
}

static void write_connections(const struct gateway *gateway, struct bytes *to)
{
    struct http_counts counts = http_server_counts(gateway->server);
    one(to, "penstock_gateway_connections", "gauge", "connections now", counts.connections);
    one(to, "penstock_gateway_connections_total", "counter", "connections ever", counts.accepted);
    one(to, "penstock_gateway_connections_spare_total", "counter",
        "connections beyond a limit: they may ask for health alone", counts.turned_away);
    one(to, "penstock_gateway_peers_late_total", "counter", "connections closed because their peer was too slow",
        counts.late);
    one(to, "penstock_gateway_requests_malformed_total", "counter", "requests that were no HTTP, too large or too slow",
        counts.bad);
    one(to, "penstock_gateway_bytes_in_total", "counter", "bytes received", counts.bytes_in);
    one(to, "penstock_gateway_bytes_out_total", "counter", "bytes sent", counts.bytes_out);
}

static void write_grpc(const struct gateway *gateway, struct bytes *to)
{
    struct grpc_counts counts = gateway->grpc ? grpc_server_counts(gateway->grpc) : (struct grpc_counts){.late = 0};
    head(to, "penstock_gateway_grpc_requests_total", "counter", "messages answered over gRPC, by call and status");
    for (unsigned kind = 0; call_name(kind); kind++)
        for (unsigned code = 0; code < GRPC_CODES; code++)
            if (gateway->grpc_answers[kind][code])
                bytes_format(to, "penstock_gateway_grpc_requests_total{call=\"%s\",status=\"%s\"} %" PRIu64 "\n",
                             call_name(kind), grpc_code_name((enum grpc_code)code), gateway->grpc_answers[kind][code]);
    one(to, "penstock_gateway_grpc_connections", "gauge", "connections of --grpc now", counts.connections);
    one(to, "penstock_gateway_grpc_connections_total", "counter", "connections of --grpc ever", counts.accepted);
    one(to, "penstock_gateway_grpc_connections_spare_total", "counter",
        "connections of --grpc beyond a limit: they may ask for health alone", counts.turned_away);
    one(to, "penstock_gateway_grpc_peers_late_total", "counter", "calls and connections of --grpc that were too slow",
        counts.late);
    one(to, "penstock_gateway_grpc_malformed_total", "counter", "connections of --grpc that were no HTTP/2, or flooded",
        counts.bad);
    one(to, "penstock_gateway_grpc_bytes_in_total", "counter", "bytes of messages received over gRPC", counts.bytes_in);
    one(to, "penstock_gateway_grpc_bytes_out_total", "counter", "bytes of messages sent over gRPC", counts.bytes_out);
}

static void label(const struct usage_model *model, struct bytes *to)
{
    bytes_text(to, "{model=");
    bytes_json_text(to, model->name);
    bytes_format(to, ",version=\"%" PRIu64 "\"", model->version);
}

struct column {
    const char *name, *help;
    uint64_t (*value)(const struct usage_model *model);
};

static uint64_t success_of(const struct usage_model *model)
{
    return model->success.count;
}
static uint64_t fail_of(const struct usage_model *model)
{
    return model->fail.count;
}
static uint64_t rows_of(const struct usage_model *model)
{
    return model->rows;
}
static uint64_t hits_of(const struct usage_model *model)
{
    return model->hit.count;
}
static uint64_t cancelled_of(const struct usage_model *model)
{
    return model->cancelled;
}

static void write_column(const struct usage *usage, const struct column *column, struct bytes *to)
{
    const struct usage_model *model;
    size_t at = 0;
    head(to, column->name, "counter", column->help);
    while ((model = usage_next(usage, NULL, 0, &at))) {
        bytes_text(to, column->name);
        label(model, to);
        bytes_format(to, "} %" PRIu64 "\n", column->value(model));
    }
}

static void write_histogram(const struct usage_model *model, struct bytes *to)
{
    static const char name[] = "penstock_gateway_request_seconds";
    uint64_t below = 0;
    for (size_t i = 0; i < USAGE_BUCKETS; i++) {
        below += model->buckets[i];
        bytes_format(to, "%s_bucket", name);
        label(model, to);
        if (i + 1 < USAGE_BUCKETS)
            bytes_format(to, ",le=\"%g\"} %" PRIu64 "\n", 1e-4 * (double)(1u << i), below);
        else
            bytes_format(to, ",le=\"+Inf\"} %" PRIu64 "\n", below);
    }
    bytes_format(to, "%s_sum", name);
    label(model, to);
    bytes_format(to, "} %.9f\n%s_count", (double)model->success.ns * 1e-9, name);
    label(model, to);
    bytes_format(to, "} %" PRIu64 "\n", below);
}

static void write_models(const struct gateway *gateway, struct bytes *to)
{
    static const struct column columns[] = {
        {"penstock_gateway_inference_success_total", "requests for a model that were answered", success_of},
        {"penstock_gateway_inference_failure_total", "requests for a model that failed", fail_of},
        {"penstock_gateway_inference_rows_total", "rows that were computed", rows_of},
        {"penstock_gateway_cache_hits_total", "requests answered from the broker's cache", hits_of},
        {"penstock_gateway_inference_cancelled_total", "requests that ended cancelled", cancelled_of},
    };
    const struct usage_model *model;
    size_t at = 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        write_column(gateway->usage, &columns[i], to);
    head(to, "penstock_gateway_request_seconds", "histogram",
         "from a request's head to its answer, of those that went well");
    while ((model = usage_next(gateway->usage, NULL, 0, &at)))
        write_histogram(model, to);
}

enum pen_status answer_metrics(struct call *call, struct pen_error *reterr)
{
    const struct gateway *gateway = call->gateway;
    struct bytes *to = &call->text;
    (void)reterr;
    call->type = "text/plain; version=0.0.4; charset=utf-8";
    one(to, "penstock_gateway_uptime_seconds", "gauge", "since the start",
        (clock_now_us() - gateway->started_us) / 1000000);
    write_requests(gateway, to);
    write_connections(gateway, to);
    write_grpc(gateway, to);
    one(to, "penstock_gateway_inferences", "gauge", "inference requests under way", gateway->inferences);
    one(to, "penstock_gateway_hung_up_total", "counter", "requests whose peer hung up before the answer",
        gateway->cancelled);
    one(to, "penstock_gateway_body_bytes", "gauge", "memory of requests' bodies, of --body-memory", hold_budget_used());
    one(to, "penstock_gateway_uncounted_total", "counter", "requests for models beyond the 1024 that are counted",
        usage_uncounted(gateway->usage));
    write_models(gateway, to);
    return PEN_OK;
}
