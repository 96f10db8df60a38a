/*
 * request.h - the settings that describe a job, shared by submit and load, and the job options they make.
 *
 * Threads: owner.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include "contract.h"
#include "penstock/client.h"
#include "settings.h"

#define REQUEST_PARAMETERS_MAX 64

struct request_settings {
    const char *backend, *precision, *version_label;
    int64_t version, deadline_us, priority, sequence;
    bool no_cache, explain, trace, layers, debug, tell_drain;
    const char *traceparent;
    struct setting_list inputs, outputs, tags, needs, parameters;
};

/* clang-format off */
#define REQUEST_SETTINGS(opts, member)                                                                                           \
    {.name = "input", .type = SETTING_LIST, .offset = offsetof(opts, member.inputs), .help = "NAME=FILE: a tensor from a .npy, raw or picture file; of a map NAME={\"key\": value} or a file with such an object"}, \
    {.name = "outputs", .type = SETTING_LIST, .offset = offsetof(opts, member.outputs), .help = "names of the outputs wanted; all when empty"}, \
    {.name = "parameter", .type = SETTING_LIST, .offset = offsetof(opts, member.parameters), .help = "NAME=VALUE for the model: integer, number, true, false or text"}, \
    {.name = "tag", .type = SETTING_LIST, .offset = offsetof(opts, member.tags), .help = "only on workers that carry it"}, \
    {.name = "require", .type = SETTING_LIST, .offset = offsetof(opts, member.needs), .help = "NAME or NAME=VALUE: only on workers with this flag (penstock workers --json lists them)"}, \
    {.name = "backend", .type = SETTING_TEXT, .offset = offsetof(opts, member.backend), .def = "", .help = "only on this backend, such as xnnpack"}, \
    {.name = "precision", .type = SETTING_TEXT, .offset = offsetof(opts, member.precision), .def = "any", .help = CONTRACT_FORMS ": what the answer's numbers must keep; a bound X, such as 1e-2, is on the measured error"}, \
    {.name = "model-version", .type = SETTING_INT, .offset = offsetof(opts, member.version), .def = "0", .help = "version of the model; 0 = the highest"}, \
    {.name = "version-label", .type = SETTING_TEXT, .offset = offsetof(opts, member.version_label), .def = "", .help = "the version that carries this label, such as canary"}, \
    {.name = "deadline", .type = SETTING_DURATION, .offset = offsetof(opts, member.deadline_us), .def = "30s",     \
     .help = "give up on a job after this long; 0 = never"},                                                                     \
    {.name = "priority", .type = SETTING_INT, .offset = offsetof(opts, member.priority), .def = "0", .max = 255,                 \
     .help = "1 = most urgent; 0 = the model's default"},                                                                        \
    {.name = "sequence", .type = SETTING_INT, .offset = offsetof(opts, member.sequence), .def = "0", .help = "of models that keep state: the files are the jobs of this sequence, in their order; 0 = none"}, \
    {.name = "no-cache", .type = SETTING_FLAG, .offset = offsetof(opts, member.no_cache), .def = "false",                        \
     .help = "neither read nor store cached results"},                                                                           \
    {.name = "explain", .type = SETTING_FLAG, .offset = offsetof(opts, member.explain), .def = "false",                         \
     .help = "let the answer say why it was run where it was"}, \
    {.name = "tell-drain", .type = SETTING_FLAG, .offset = offsetof(opts, member.tell_drain), .def = "false",                   \
     .help = "a job that the only broker refuses because it drains ends UNAVAILABLE; else it waits for the broker that comes in its place"}, \
    {.name = "traceparent", .type = SETTING_TEXT, .offset = offsetof(opts, member.traceparent), .def = "", .help = "W3C trace context that the jobs belong to"}, \
    {.name = "trace", .type = SETTING_FLAG, .offset = offsetof(opts, member.trace), .def = "false", .help = "let the broker keep traces of the jobs for penstock trace"}, \
    {.name = "layers", .type = SETTING_FLAG, .offset = offsetof(opts, member.layers), .def = "false",                            \
     .help = "the same, with the times of the model's layers; never from the cache"},                                           \
    {.name = "debug", .type = SETTING_FLAG, .offset = offsetof(opts, member.debug), .def = "false",                              \
     .help = "run in debug mode, alone, on a worker with --allow-debug: a line per operator comes with the answer"}
/* clang-format on */

/* What the options point to. */
struct request {
    struct pen_job_options options;
    struct pen_parameter parameters[REQUEST_PARAMETERS_MAX];
    char names[REQUEST_PARAMETERS_MAX][64];
};

/* model and inputs remain to be set. The settings must outlive the request. */
enum pen_status request_make(const struct request_settings *settings, struct request *ret_request,
                             struct pen_error *reterr);

#endif
