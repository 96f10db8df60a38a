#include "gateway_options.h"

#include <string.h>

#include "local_host.h"

#define AT(field) offsetof(struct gateway_options, field)
#define KIB       1024
#define MIB       (1024 * KIB)
#define GIB       (1024ll * MIB)
#define SECOND    1000000ll
#define HOUR      (3600 * SECOND)

static const struct setting table[] = {
    {"broker", SETTING_TEXT, AT(broker), "tcp://127.0.0.1:5550", NULL, 0, 0, NULL,
     "endpoint of the broker for clients; several separated by commas"},
    {"http", SETTING_TEXT, AT(http), "127.0.0.1:8000", NULL, 0, 0, NULL,
     "address for HTTP; port * lets the system choose"},
    {"grpc", SETTING_TEXT, AT(grpc), "127.0.0.1:8001", NULL, 0, 0, NULL,
     "address for gRPC; port * lets the system choose; none = no gRPC"},
    {"tenant", SETTING_TEXT, AT(tenant), "default", NULL, 0, 0, NULL, "tenant to act for"},
    {"key", SETTING_TEXT, AT(key), "", NULL, 0, 0, NULL,
     "key file of `penstock keygen`, where the broker asks for keys; role submit"},
    {"broker-key", SETTING_TEXT, AT(broker_key), "", NULL, 0, 0, NULL, "the broker's public key, 64 hex digits"},
    {"tokens", SETTING_TEXT, AT(tokens), "", NULL, 0, 0, NULL,
     "who may come in: lines of NAME KEY_FILE TOKEN [settings], read again when it changes; TOKEN may be sha256:HEX; "
     "all but health then asks for a "
     "token"},
    {"allow-remote", SETTING_FLAG, AT(allow_remote), NULL, NULL, 0, 0, NULL,
     "listen on addresses beyond loopback without --tokens: anybody who reaches it may use the pool"},
    {"cors", SETTING_TEXT, AT(cors), "", NULL, 0, 0, NULL,
     "origin whose pages may call from a browser, such as https://shop.example, or *; empty = none"},
    {"shared-memory", SETTING_CHOICE, AT(shared_memory), "own", NULL, 0, 0, "off|own|any",
     "shared memory that clients of this host may register: none, that of the gateway's own user, or all that it can "
     "open"},
    {"max-body", SETTING_BYTES, AT(max_body), "64MiB", "bytes", 1, 2 * GIB - 1, NULL,
     "largest body of a request, also unpacked"},
    {"body-memory", SETTING_BYTES, AT(body_memory), "1GiB", "bytes", MIB, 1024 * GIB, NULL,
     "memory of all requests' bodies and inputs; beyond it the answer is 503"},
    {"max-head", SETTING_BYTES, AT(max_head), "16KiB", "bytes", KIB, MIB, NULL, "largest head of a request"},
    {"connections", SETTING_INT, AT(connections), "16384", "connections", 1, 1000000, NULL,
     "at most so many; 64 more may ask for health alone"},
    {"connections-per-address", SETTING_INT, AT(connections_per_address), "12288", "connections", 1, 1000000, NULL,
     "at most so many of one address, of IPv6 one network of 64 bits"},
    {"grpc-streams", SETTING_INT, AT(streams), "128", "calls", 1, 100000, NULL,
     "calls that may be under way on one connection of gRPC"},
    {"idle", SETTING_DURATION, AT(idle_us), "5min", NULL, SECOND / 10, 24 * HOUR, NULL,
     "how long a connection may wait between two requests"},
    {"head-timeout", SETTING_DURATION, AT(head_us), "10s", NULL, SECOND / 10, HOUR, NULL,
     "how long the head of a request may take; bodies must keep 16 KiB a second"},
    {"threads", SETTING_INT, AT(threads), "2", "threads", 1, 64, NULL,
     "threads that read and write large JSON and compressed bodies"},
    {"refresh", SETTING_DURATION, AT(refresh_us), "500ms", NULL, 1000, HOUR, NULL,
     "age up to which the list of models is used again"},
    {"order-timeout", SETTING_DURATION, AT(order_us), "2min", NULL, SECOND / 10, HOUR, NULL,
     "how long loading and unloading a model may take"},
    {"drain-timeout", SETTING_DURATION, AT(drain_us), "30s", NULL, 0, HOUR, NULL,
     "at SIGTERM: how long requests under way may still take"},
    {"json", SETTING_FLAG, AT(json), "false", NULL, 0, 0, NULL, "say where it listens as one JSON object"},
    {"log-level", SETTING_CHOICE, AT(log_level), "info", NULL, 0, 0, "debug|info|warn|error",
     "events below this are not logged"},
    {"log-format", SETTING_CHOICE, AT(log_format), "text", NULL, 0, 0, "text|json", "form of the log lines on stderr"},
    {.name = NULL}};

/* The broker and the worker mean something else by PENSTOCK_<SETTING>. */
static const struct setting_variable variables[] = {
    {"http", "PENSTOCK_GATEWAY_HTTP", settings_old_never},
    {"grpc", "PENSTOCK_GATEWAY_GRPC", settings_old_never},
    {"grpc-streams", "PENSTOCK_GATEWAY_GRPC_STREAMS", settings_old_never},
    {"allow-remote", "PENSTOCK_GATEWAY_ALLOW_REMOTE", settings_old_never},
    {"threads", "PENSTOCK_GATEWAY_THREADS", settings_old_never},
    {"json", "PENSTOCK_GATEWAY_JSON", settings_old_never},
    {"config", "PENSTOCK_GATEWAY_CONFIG", settings_old_never},
    {.setting = NULL},
};

const struct settings_program gateway_program = {
    .name = "penstock-gateway",
    .usage = "penstock-gateway [--broker ENDPOINT] [--http ADDRESS] [--grpc ADDRESS] [options]",
    .about = "Serves the models of a pool over HTTP and gRPC by the Open Inference Protocol (version 2), for clients "
             "that know "
             "nothing of Penstock: curl, tritonclient,\n"
             "browsers. It is a client of the broker. Prints one line with its address when it listens, and ends in "
             "good order at SIGTERM.",
    .after = "Example:\n  penstock-gateway &\n  curl localhost:8000/v2/repository/index -X POST\n\n"
             "JSON: {evt, http, grpc, broker, pid}\n\n"
             "Exit codes: 0 ended at a signal, 1 failed, 2 wrong usage, 3 cannot listen, 4 ended before its requests "
             "(a second signal, or --drain-timeout).",
    .table = table,
    .variables = variables,
};

enum pen_status gateway_options_check(struct gateway_options *options, struct pen_error *reterr)
{
    options->region_rule = strcmp(options->shared_memory, "off") == 0   ? REGIONS_OFF
                           : strcmp(options->shared_memory, "any") == 0 ? REGIONS_ANY
                                                                        : REGIONS_OWN;
    if (strpbrk(options->cors, "\r\n ") || strlen(options->cors) > 250)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--cors is one origin of at most 250 characters, such as https://shop.example, or *");
    bool grpc = strcmp(options->grpc, "none") != 0;
    enum pen_status status = listen_check(options->http, reterr);
    if (status == PEN_OK && grpc)
        status = listen_check(options->grpc, reterr);
    if (status != PEN_OK)
        return status;
    const char *far = !host_is_local(options->http)           ? options->http
                      : grpc && !host_is_local(options->grpc) ? options->grpc
                                                              : NULL;
    if (!options->allow_remote && !*options->tokens && far)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%s can be reached from other machines and nobody would be asked who they are; add "
                             "--tokens, or --allow-remote when a "
                             "firewall or a proxy keeps strangers out",
                             far);
    return PEN_OK;
}
