/* options.c - the table of settings, and checks across several of them. */
#include "options.h"

#include "precisions.h" /* for flag_settings.def */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct setting table[] = {
    {"broker", SETTING_TEXT, offsetof(struct options, broker), "tcp://127.0.0.1:5551", NULL, 0, 0, NULL,
     "worker endpoints of the brokers, separated by commas; a name with several addresses stands for all of them"},
    {"key", SETTING_TEXT, offsetof(struct options, key), "", NULL, 0, 0, NULL,
     "key file of `penstock keygen`, where the broker asks for keys"},
    {"broker-key", SETTING_TEXT, offsetof(struct options, broker_key), "", NULL, 0, 0, NULL,
     "the broker's public key, 64 hex digits"},
    {"models", SETTING_TEXT, offsetof(struct options, models), "models", NULL, 0, 0, NULL,
     "folder of models: NAME/VERSION/ with model.onnx, model.tflite or a TensorFlow.js model.json; config.json beside; "
     "or registry:NAME[@VERSION|:LABEL],... of --registry"},
    {"registry", SETTING_TEXT, offsetof(struct options, registry), "", NULL, 0, 0, NULL,
     "where models are: a folder, http://HOST/PATH, s3://BUCKET/PREFIX or s3+http://HOST:PORT/BUCKET/PREFIX"},
    {"store", SETTING_TEXT, offsetof(struct options, store), "", NULL, 0, 0, NULL,
     "folder for what was pulled; default ~/.cache/penstock/store"},
    {"store-limit", SETTING_BYTES, offsetof(struct options, store_limit), "0", "bytes", 0, INT64_MAX, NULL,
     "of the store: beyond it the models used least recently go, those in use never; 0 = no bound"},
    {"exchange", SETTING_TEXT, offsetof(struct options, exchange), "auto", NULL, 0, 0, NULL,
     "folder in which stores of this user and host find each other; auto = in XDG_RUNTIME_DIR or /tmp; none"},
    {"share-models", SETTING_TEXT, offsetof(struct options, share_models), "none", NULL, 0, 0, NULL,
     "serve what is in the store to other workers, by digest: an address such as 0.0.0.0:5560, or none"},
    {"model-peers", SETTING_TEXT, offsetof(struct options, model_peers), "", NULL, 0, 0, NULL,
     "HOST:PORT of workers with --share-models, this one among them, separated by commas: they are asked before the "
     "registry; a name with several addresses stands for all of them"},
    {"transfers", SETTING_INT, offsetof(struct options, transfers), "4", "connections", 1, 32, NULL,
     "at a time, from the registry or other workers"},
    {"model", SETTING_LIST, offsetof(struct options, model_choices), NULL, NULL, 0, 0, NULL,
     "serve only NAME or NAME:VERSION (may be repeated)"},
    {"placement", SETTING_CHOICE, offsetof(struct options, placement), "fallback", NULL, 0, 0, "strict|fallback",
     "strict: a model that the backend cannot run whole is refused"},
    {"slots", SETTING_INT, offsetof(struct options, slots), "0", "slots", 0, 64, NULL,
     "jobs or batches at the same time; 0 = instance_group of the models, else 1"},
    {"threads", SETTING_INT, offsetof(struct options, threads), "0", "threads", 0, 256, NULL,
     "of each slot; 0 = processor cores (affinity, cgroup) / slots: two hyper-threads are one core"},
    {"decoders", SETTING_INT, offsetof(struct options, decoders), "0", "threads", 0, 64, NULL,
     "that decode jobs' pictures beside the slots; 0 = processors (affinity, cgroup), at most 8"},
    {"memory-limit", SETTING_BYTES, offsetof(struct options, memory_limit), "0", "bytes", 0, INT64_MAX, NULL,
     "of one model with its sessions, each slot's an equal part of what the weights leave: a job whose shapes need "
     "more is refused; 0 = "
     "three quarters of what cgroup and host grant"},
    {"memory-budget", SETTING_BYTES, offsetof(struct options, memory_budget), "0", "bytes", 0, INT64_MAX, NULL,
     "of all models with their sessions: beyond it models are offered unloaded, loaded when a job comes, and the least "
     "recently used makes room; 0 = all are loaded"},
    {"idle-unload", SETTING_DURATION, offsetof(struct options, idle_unload_us), "0", NULL, 0, 86400000000, NULL,
     "a model that no job has used for this long leaves memory; the next job for it waits until it is loaded again; 0 "
     "= it stays"},
    {"fold-limit", SETTING_BYTES, offsetof(struct options, fold_limit), "256MiB", "bytes", 1, INT64_MAX, NULL,
     "of what a model computes from constants alone, beside eight times its file: that is done at the load; the rest "
     "is computed at each run"},
    {"queue-bytes", SETTING_BYTES, offsetof(struct options, queue_bytes), "0", "bytes", 0, INT64_MAX, NULL,
     "inputs held at a time; 0 = a quarter of the memory, at most 1 GiB"},
    {"sequence-memory", SETTING_BYTES, offsetof(struct options, sequence_memory), "256MiB", "bytes", 0, INT64_MAX, NULL,
     "state of open sequences; a new one beyond it goes to another worker or is told BUSY"},
    {"frame-limit", SETTING_BYTES, offsetof(struct options, frame_limit), "256MiB", "bytes", 65536, INT64_MAX, NULL,
     "largest frame accepted from the broker"},
    {"name", SETTING_TEXT, offsetof(struct options, name), NULL, NULL, 0, 0, NULL, "for people; default HOST-PID"},
    {"tag", SETTING_LIST, offsetof(struct options, tags), NULL, NULL, 0, 0, NULL,
     "jobs may demand tags (may be repeated)"},
    {"heartbeat", SETTING_DURATION, offsetof(struct options, heartbeat_us), "0", NULL, 0, 3600000000, NULL,
     "send at least this often; 0 = as the broker says"},
    {"liveness", SETTING_DURATION, offsetof(struct options, liveness_us), "0", NULL, 0, 3600000000, NULL,
     "reconnect after this much silence; 0 = as the broker says"},
    {"denied-wait", SETTING_DURATION, offsetof(struct options, denied_wait_us), "1h", NULL, 0, 86400000000, NULL,
     "a broker that had welcomed this worker and denies its key now (a damaged list) is asked again for so long; 0 = "
     "the worker ends at once"},
    {"drain-timeout", SETTING_DURATION, offsetof(struct options, drain_timeout_us), "30s", NULL, 0, 86400000000, NULL,
     "after SIGTERM: wait this long for running jobs"},
    {"watchdog", SETTING_DURATION, offsetof(struct options, watchdog_us), "60s", NULL, 0, 86400000000, NULL,
     "end the process when a run goes on this long past its deadline (or start, without one); 0 = off"},
    {"spin", SETTING_DURATION, offsetof(struct options, spin_us), "50us", NULL, 0, 1000000, NULL,
     "busy wait before sleeping, while that pays and there is more than one processor; 0 = off"},
    {"wake-slice", SETTING_DURATION, offsetof(struct options, wake_slice_us), "100us", NULL, 0, 100000, NULL,
     "slices of processor time asked of the kernel for threads that pass messages on: they need not wait for those "
     "that "
     "compute (Linux 6.12 on); 0 = the kernel's own"},
    {"watch", SETTING_DURATION, offsetof(struct options, watch_us), "0", NULL, 0, 3600000000, NULL,
     "look at the folder of models, or ask the registry, this often: load what is new, unload what has gone; 0 = only "
     "at "
     "start"},
    {"metrics", SETTING_TEXT, offsetof(struct options, metrics), "none", NULL, 0, 0, NULL,
     "serve /metrics and /v2/health/ of this worker alone: an address such as 127.0.0.1:9100, or none"},
    {"supervise", SETTING_FLAG, offsetof(struct options, supervise), "false", NULL, 0, 0, NULL,
     "run in a child process that is started again when it crashes"},
    {"measure", SETTING_CHOICE, offsetof(struct options, measure), "beside", NULL, 0, 0, "beside|first|off",
     "how far each model's answers are from the reference backend's: measured beside serving, first (before the worker "
     "says hello), or not at all; results are kept beside the models, in .penstock-measured"},
    {"mode", SETTING_CHOICE, offsetof(struct options, mode), "default", NULL, 0, 0, "default|debug|prod",
     "debug: each operator is timed, checked and compared with the reference (slow), NaN or infinity ends its job; "
     "prod: checks of consistency and of numbers are off, of "
     "bounds never (and still what --strict-models does, with a warning)"},
    {"strict-models", SETTING_FLAG, offsetof(struct options, strict_models), "false", NULL, 0, 0, NULL,
     "serve all models or none: one that fails at the start ends the worker"},
    {"allow-debug", SETTING_FLAG, offsetof(struct options, allow_debug), "false", NULL, 0, 0, NULL,
     "take jobs in debug mode (penstock submit --debug): each loads its model once more, runs alone and answers with a "
     "log of its operators"},
    {"allow-empty", SETTING_FLAG, offsetof(struct options, allow_empty), "false", NULL, 0, 0, NULL,
     "serve even when no model could be loaded"},
#include "penstock/flag_settings.def"
    {"flag", SETTING_LIST, offsetof(struct options, flags), NULL, NULL, 0, 0, NULL,
     "a flag of the engine, NAME=VALUE (may be repeated); `penstock-engine env` lists all"},
    {"log-level", SETTING_CHOICE, offsetof(struct options, log_level), "auto", NULL, 0, 0, "auto|debug|info|warn|error",
     "auto = info, debug in debug mode"},
    {"log-format", SETTING_CHOICE, offsetof(struct options, log_format), "text", NULL, 0, 0, "text|json",
     "one line per event, on stderr"},
    {.name = NULL},
};

/* PENSTOCK_BROKER was once the workers' port for this program and the clients' port for `penstock`: a value with the
   usual port of clients is meant for `penstock`. */
static bool is_workers_end(const char *value)
{
    const char *port = strstr(value, ":5550");
    return !port || (port[5] >= '0' && port[5] <= '9');
}

/* Names that `penstock` or the broker use for something else. */
static const struct setting_variable variables[] = {
    {"broker", "PENSTOCK_WORKER_BROKER", is_workers_end},
    {"key", "PENSTOCK_WORKER_KEY", NULL},
    {"model", "PENSTOCK_WORKER_MODEL", NULL},
    {"backend", "PENSTOCK_WORKER_BACKEND", NULL},
    {"precision", "PENSTOCK_WORKER_PRECISION", NULL},
    {"memory-limit", "PENSTOCK_WORKER_MEMORY_LIMIT", NULL},
    {"queue-bytes", "PENSTOCK_WORKER_QUEUE_BYTES", NULL},
    {"name", "PENSTOCK_WORKER_NAME", NULL},
    {"tag", "PENSTOCK_WORKER_TAG", NULL},
    {"config", "PENSTOCK_WORKER_CONFIG", NULL},
    {.setting = NULL},
};

const struct settings_program options_program = {
    .name = "penstock-worker",
    .usage = "penstock-worker [options]",
    .about = "Loads the models of a folder, warms them up by executing them, and runs the jobs a broker sends.",
    .after = "exit codes: 0 drained, 1 failure, 2 wrong option or backend, 3 no model could be loaded,\n"
             "            4 refused by the broker, 5 the broker speaks another protocol, 6 a run was wedged\n"
             "signals:    SIGTERM, SIGINT drain (finish, say goodbye, exit 0); a second one exits at once\n"
             "            SIGUSR1, SIGUSR2: log more, log less",
    .table = table,
    .variables = variables,
};

enum log_level options_log_level(const struct options *options)
{
    enum log_level level = strcmp(options->mode, "debug") == 0 ? LOG_DEBUG : LOG_INFO;
    log_level_parse(options->log_level, &level); /* "auto" leaves it as it is */
    return level;
}

enum { BACKENDS_MAX = 16 };

static void backends_list(const struct pen_backend_info *infos, size_t count, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < room; i++)
        if (infos[i].available)
            used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", infos[i].name);
}

static enum pen_status backend_check(const char *name, const struct pen_engine_options *engine,
                                     struct pen_error *reterr)
{
    struct pen_backend_info infos[BACKENDS_MAX], info = {0};
    char there[256];
    bool built = strcmp(name, "auto") == 0 || pen_backend_find(engine, name, &info);
    if (built && (info.name == NULL || info.available))
        return PEN_OK;
    size_t count = pen_backends(engine, infos, BACKENDS_MAX);
    backends_list(infos, count < BACKENDS_MAX ? count : BACKENDS_MAX, there, sizeof there);
    if (built)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this host lacks the backend '%s' (%s); there is: %s", name,
                             info.reason, there);
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this build has no backend '%.64s'; there is: %s", name, there);
}

static const enum pen_origin origins[] = {[SETTING_BY_DEFAULT] = PEN_ORIGIN_DEFAULT,
                                          [SETTING_BY_FILE] = PEN_ORIGIN_FILE,
                                          [SETTING_BY_VARIABLE] = PEN_ORIGIN_VARIABLE,
                                          [SETTING_BY_OPTION] = PEN_ORIGIN_FLAG};

struct env_making {
    struct pen_env *env;
    enum pen_status status;
    struct pen_error *reterr;
};

/* The precision comes last: what there is depends on the devices that count. */
static bool flag_take(void *context, const struct setting *setting, const struct setting_given *given)
{
    struct env_making *m = context;
    if (setting->offset == SETTING_KEPT && strcmp(setting->name, "precision") != 0)
        m->status = pen_env_set(m->env, setting->name, given->value, origins[given->origin], given->where, m->reterr);
    return m->status == PEN_OK;
}

/* `value` of a flag that follows from the setting called `name`; DETECTED where nobody gave that. */
static enum pen_status follow(const struct options *options, const char *name, const char *flag, const char *value,
                              struct env_making *m)
{
    struct setting_given given = {.origin = SETTING_BY_DEFAULT, .where = ""};
    bool there = settings_given(options->settings, name, &given);
    if (!there && strcmp(pen_env_get(m->env, flag), value) == 0)
        return PEN_OK; /* the engine's own default */
    return pen_env_set(m->env, flag, value, there ? origins[given.origin] : PEN_ORIGIN_DETECTED, given.where,
                       m->reterr);
}

static enum pen_status number_follow(const struct options *options, const char *name, const char *flag, uint64_t value,
                                     struct env_making *m)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return follow(options, name, flag, text, m);
}

/* What settings of the worker itself mean for the engine. */
static enum pen_status own_take(const struct options *options, uint32_t threads, uint64_t memory_bytes,
                                struct env_making *m)
{
    uint64_t budget = (uint64_t)options->memory_budget; /* a single model may not need more than the whole budget */
    bool whole = budget > 0 && budget < memory_bytes;
    enum pen_status status = number_follow(options, "threads", "threads", threads, m);
    if (status == PEN_OK)
        status = number_follow(options, whole ? "memory-budget" : "memory-limit", "budget_bytes",
                               whole ? budget : memory_bytes, m);
    if (status == PEN_OK)
        status = number_follow(options, "fold-limit", "fold_bytes", (uint64_t)options->fold_limit, m);
    if (status == PEN_OK)
        status = follow(options, "measure", "keep_measured", strcmp(options->measure, "off") != 0 ? "on" : "off", m);
    if (status == PEN_OK)
        status = follow(options, "placement", "placement", options->placement, m);
    return status == PEN_OK ? follow(options, "mode", "mode", options->mode, m) : status;
}

static enum pen_status flags_take(const struct options *options, struct env_making *m)
{
    struct setting_given given = {.origin = SETTING_BY_DEFAULT, .where = ""};
    settings_each(options->settings, flag_take, m);
    settings_given(options->settings, "flag", &given);
    for (size_t i = 0; m->status == PEN_OK && i < options->flags.count; i++)
        m->status = pen_env_assign(m->env, options->flags.items[i], origins[given.origin], given.where, m->reterr);
    return m->status;
}

static enum pen_status precision_take(const struct options *options, struct env_making *m)
{
    struct setting_given given;
    enum pen_precision precision;
    if (!settings_given(options->settings, "precision", &given))
        return PEN_OK;
    enum pen_status status = pen_engine_precision_find(pen_env_options(m->env), given.value, &precision, m->reterr);
    return status == PEN_OK ? follow(options, "precision", "precision", given.value, m) : status;
}

enum pen_status options_env(const struct options *options, uint32_t threads, uint64_t memory_bytes,
                            struct pen_env **ret_env, struct pen_error *reterr)
{
    struct env_making m = {.reterr = reterr};
    m.status = pen_env_new(&m.env, reterr);
    if (m.status == PEN_OK)
        m.status = flags_take(options, &m);
    if (m.status == PEN_OK)
        m.status = own_take(options, threads, memory_bytes, &m);
    if (m.status == PEN_OK)
        m.status = backend_check(pen_env_get(m.env, "backend"), pen_env_options(m.env), reterr);
    if (m.status == PEN_OK)
        m.status = precision_take(options, &m);
    if (m.status != PEN_OK) {
        pen_env_free(m.env);
        return m.status;
    }
    *ret_env = m.env;
    return PEN_OK;
}
