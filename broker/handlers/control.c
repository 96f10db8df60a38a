#include "control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "worker_handler.h"
#include "cluster.h"
#include "control_arrivals.h"
#include "control_cancel.h"
#include "control_internal.h"
#include "control_watch.h"
#include "logline.h"
#include "shadow_guard.h"
#include "send.h"
#include "departure.h"
#include "fleet_order.h"
#include "explain.h"
#include "meta_fields.h"
#include "wire_reader.h"

#define ANSWER_BYTES_MAX     (64u * 1024u * 1024u)
#define ANSWER_INSTEAD_BYTES 256 /* for an answer that only says why there is none */
#define NO_MEMORY            "the broker has no memory for the answer"

void *control_room(struct control_answer *answer, size_t bytes)
{
    void *memory = answer->arena.allocator.alloc(answer->arena.allocator.allocator_data, bytes ? bytes : 1);
    if (memory)
        memset(memory, 0, bytes);
    else
        answer->status = PEN_ERR_NO_MEMORY;
    return memory;
}

char *control_text(struct control_answer *answer, const char *text)
{
    char *copy = control_room(answer, strlen(text) + 1);
    if (copy)
        memcpy(copy, text, strlen(text) + 1);
    return copy ? copy : (char *)(uintptr_t) "";
}

void control_fail(struct control_answer *answer, enum pen_status status, const char *text)
{
    answer->status = status;
    answer->reply.error = control_text(answer, text);
}

/* ---- verbs ---- */

/* argument: empty or "broker" = this broker, "workers" = all of them, else a worker's name. */
static void on_drain(struct broker *broker, struct control_answer *answer, const char *argument)
{
    struct worker *worker;
    if (!*argument || strcmp(argument, "broker") == 0) {
        departure_drain(broker);
        return;
    }
    if (strcmp(argument, "workers") == 0) {
        TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
        worker_drain_told(broker, worker);
        return;
    }
    worker = fleet_by_name(&broker->fleet, argument);
    if (worker)
        worker_drain_told(broker, worker);
    else
        control_fail(answer, PEN_ERR_NOT_FOUND, "no worker of that name is connected; `workers` lists them");
}

/* argument: the id of a job that is under way or among the last that ended. */
static void on_explain(struct broker *broker, struct control_answer *answer, const char *argument)
{
    struct job_id id;
    if (job_id_parse(argument, &id) != 0) {
        control_fail(answer, PEN_ERR_INVALID, "that " JOB_ID_REFUSED);
        return;
    }
    answer->reply.explanation = explain_job(broker, id, &answer->arena.allocator);
    if (!answer->reply.explanation)
        control_fail(answer, PEN_ERR_NOT_FOUND,
                     "no job of that id is under way or among the last that ended (--explain-jobs of the broker)");
}

/* argument: a job id, or "all". Equal jobs may then run again. */
static void on_kick(struct broker *broker, struct control_answer *answer, const char *argument)
{
    struct job_id id;
    if (strcmp(argument, "all") == 0) {
        quarantine_kick_all(broker->quarantine);
        return;
    }
    if (job_id_parse(argument, &id) != 0)
        control_fail(answer, PEN_ERR_INVALID, "that " JOB_ID_REFUSED);
    else if (!quarantine_kick(broker->quarantine, id))
        control_fail(answer, PEN_ERR_NOT_FOUND, "no job of that id is in quarantine");
}

static void on_ping(struct broker *broker, struct control_answer *answer, const char *argument)
{
    (void)broker;
    (void)answer;
    (void)argument;
}

/* Text that was malloc'ed elsewhere moves into the answer. */
static void give_text(struct control_answer *answer, enum pen_status status, char *text, const struct pen_error *error)
{
    if (status == PEN_OK)
        answer->reply.text = control_text(answer, text);
    else
        control_fail(answer, status, error->text);
    free(text);
}

static void on_trace(struct broker *broker, struct control_answer *answer, const char *argument)
{
    char *text = NULL;
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = control_trace(broker, argument, &text, &error);
    give_text(answer, status, text, &error);
}

static void on_log_level(struct broker *broker, struct control_answer *answer, const char *argument)
{
    char *text = NULL;
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = control_log_level(broker, argument, &text, &error);
    give_text(answer, status, text, &error);
}

static void on_arrivals(struct broker *broker, struct control_answer *answer, const char *argument)
{
    char *text = NULL;
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = control_arrivals(broker, argument, &text, &error);
    give_text(answer, status, text, &error);
}

/* argument: "MODEL LABEL VERSION [SHARE_PPM]"; label.h. */
static void on_label(struct broker *broker, struct control_answer *answer, const char *argument)
{
    struct pen_error error = {.status = PEN_OK};
    if (label_set(&broker->labels, argument, &error) != PEN_OK) {
        control_fail(answer, error.status, error.text);
        return;
    }
    cluster_tell(broker->cluster, argument);
    log_event(LOG_INFO, "model_label", "argument=%s", argument);
}

/* argument: as shadow_set takes it; or a model alone: what came out. */
static void on_shadow(struct broker *broker, struct control_answer *answer, const char *argument)
{
    struct pen_error error = {.status = PEN_OK};
    const struct shadow_rule *rule = *argument ? shadow_rule(&broker->shadow, argument) : NULL;
    char text[1024];
    if (rule) {
        answer->reply.text = control_text(answer, shadow_text(rule, text, sizeof text));
        return;
    }
    if (!strchr(argument, ' ')) {
        control_fail(answer, PEN_ERR_NOT_FOUND, "no jobs of a model of that name are copied");
        return;
    }
    if (shadow_guard_set(broker, argument, &error) != PEN_OK) {
        control_fail(answer, error.status, error.text);
        return;
    }
    log_event(LOG_INFO, "model_shadow", "argument=%s", argument);
}

/* Loading is allowed to administrators only, and written into the audit log. */
static bool may_order(struct broker *broker, const struct session *session, struct control_answer *answer,
                      const Penstock__ControlRequest *request)
{
    const struct identity *identity = session->identity;
    bool allowed = !identity || (identity->roles & ROLE_ADMIN);
    if (!allowed)
        control_fail(answer, PEN_ERR_DENIED, "loading and unloading needs the role admin");
    audit_note(broker->audit, identity ? identity->name : session->name, session->uuid, request->verb,
               request->argument, allowed ? PEN_OK : PEN_ERR_DENIED);
    return allowed;
}

/* True: workers carry the order out, the reply comes later. */
static bool begin_order(struct broker *broker, struct session *session, struct control_answer *answer,
                        const Penstock__ControlRequest *request)
{
    struct pen_error error = {.status = PEN_OK};
    if (strcmp(request->verb, "load") != 0 && strcmp(request->verb, "unload") != 0)
        return false;
    if (!may_order(broker, session, answer, request))
        return false;
    if (fleet_order_begin(broker, session, request->serial, request->verb, request->argument, &error) == PEN_OK)
        return true;
    control_fail(answer, error.status, error.text);
    return false;
}

/* True: Redis was asked, and the reply comes later. The job's owner decides who may cancel it; here only the role
   observe alone is refused. */
static bool cancel(struct broker *broker, struct session *session, struct control_answer *answer,
                   const Penstock__ControlRequest *request)
{
    const struct identity *identity = session->identity;
    struct pen_error error = {.status = PEN_OK};
    bool later = false;
    if (identity && !(identity->roles & (ROLE_SUBMIT | ROLE_ADMIN)))
        pen_error_set(&error, PEN_ERR_DENIED, "the key of %s lacks the role that cancel needs", identity->name);
    else
        control_cancel(broker, session, request->serial, request->argument, &later, &error);
    char job[JOB_ID_TEXT_BYTES]; /* never the secret behind it */
    snprintf(job, sizeof job, "%.*s", (int)strcspn(request->argument, " "), request->argument);
    audit_note(broker->audit, identity ? identity->name : session->name, session->uuid, "cancel", job, error.status);
    if (error.status != PEN_OK)
        control_fail(answer, error.status, error.text);
    return later;
}

/* roles: where keys are needed, the caller must have one of these; audited: the verb changes something. */
static const struct verb {
    const char *name;
    void (*act)(struct broker *broker, struct control_answer *answer, const char *argument);
    unsigned roles;
    bool audited;
} verbs[] = {
    {"models", control_models, ROLE_SUBMIT | ROLE_OBSERVE | ROLE_ADMIN, false},
    {"workers", control_workers, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"stats", control_stats, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"explain", on_explain, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"quarantine", control_quarantine, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"ping", on_ping, ROLE_SUBMIT | ROLE_OBSERVE | ROLE_ADMIN, false},
    {"drain", on_drain, ROLE_ADMIN, true},
    {"kick", on_kick, ROLE_ADMIN, true},
    {"trace", on_trace, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"arrivals", on_arrivals, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"label", on_label, ROLE_ADMIN, true},
    {"shadow", on_shadow, ROLE_ADMIN, true},
    {"log-level", on_log_level, ROLE_ADMIN, true},
    {"usage", control_usage, ROLE_OBSERVE | ROLE_ADMIN, false},
};

static void run_verb(struct broker *broker, const struct session *session, struct control_answer *answer,
                     const struct verb *verb, const char *argument)
{
    const struct identity *identity = session->identity;
    char text[128];
    if (identity && !(identity->roles & verb->roles)) {
        snprintf(text, sizeof text, "the key of %s lacks the role that %s needs", identity->name, verb->name);
        control_fail(answer, PEN_ERR_DENIED, text);
    } else {
        verb->act(broker, answer, argument);
    }
    if (verb->audited || answer->status == PEN_ERR_DENIED)
        audit_note(broker->audit, identity ? identity->name : session->name, session->uuid, verb->name, argument,
                   answer->status);
}

static void act(struct broker *broker, const struct session *session, struct control_answer *answer,
                const Penstock__ControlRequest *request)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(request->verb, verbs[i].name) == 0) {
            run_verb(broker, session, answer, &verbs[i], request->argument);
            return;
        }
    }
    control_fail(
        answer, PEN_ERR_NOT_FOUND,
        "unknown verb; there are models, workers, stats, drain, cancel, explain, quarantine, kick, ping, load, "
        "unload, label, shadow, trace, log-level, arrivals, usage");
}

/* Nothing of the answer but its number, and why. */
static void answer_instead(struct control_answer *answer, enum pen_status status, const char *why)
{
    uint64_t serial = answer->reply.serial;
    penstock__control_reply__init(&answer->reply);
    answer->reply.serial = serial;
    answer->reply.error = (char *)(uintptr_t)why;
    answer->status = status;
}

static void answer_send(struct broker *broker, struct session *session, struct control_answer *answer)
{
    struct envelope env = envelope_make(FRAME_CONTROL_REPLY);
    uint8_t small[ANSWER_INSTEAD_BYTES], *own = NULL;
    if (answer->status == PEN_ERR_NO_MEMORY)
        answer_instead(answer, PEN_ERR_NO_MEMORY, NO_MEMORY);
    if (penstock__control_reply__get_packed_size(&answer->reply) > FRAME_CONTROL_BYTES_MAX)
        answer_instead(answer, PEN_ERR_TOO_LARGE,
                       "the answer is larger than a control message may be; name one model or worker, or fewer hours");
    size_t bytes = penstock__control_reply__get_packed_size(&answer->reply);
    if (bytes > sizeof small && !(own = malloc(bytes)))
        answer_instead(answer, PEN_ERR_NO_MEMORY, NO_MEMORY);
    uint8_t *meta = own ? own : small;
    env.status = (uint8_t)answer->status;
    broker_send_client(broker, session, &env, meta, penstock__control_reply__pack(&answer->reply, meta));
    free(own);
}

/* The serial number of a refused question, because its sender waits for an answer with it. 0 = it has none. */
static uint64_t serial_of(const uint8_t *meta, size_t bytes)
{
    struct wire_reader reader = {meta, meta + bytes};
    struct wire_field field;
    while (meta_next(&reader, &field)) {
        if (field.number == CONTROL_REQUEST_SERIAL && !field.data)
            return field.value;
    }
    return 0;
}

void control_answer(struct broker *broker, struct session *session, const uint8_t *meta, size_t bytes)
{
    struct control_answer answer = {.status = PEN_OK};
    meta_arena_reset(&broker->arena);
    const Penstock__ControlRequest *request =
        meta_unpack(&broker->arena, &penstock__control_request__descriptor, meta, bytes);
    meta_arena_init(&answer.arena, ANSWER_BYTES_MAX);
    penstock__control_reply__init(&answer.reply);
    if (request) {
        answer.reply.serial = request->serial;
        if (begin_order(broker, session, &answer, request)) {
            meta_arena_fini(&answer.arena);
            return;
        }
        if (strcmp(request->verb, "cancel") == 0) {
            if (cancel(broker, session, &answer, request)) {
                meta_arena_fini(&answer.arena);
                return;
            }
        } else if (answer.status == PEN_OK) {
            act(broker, session, &answer, request);
        }
    } else {
        struct pen_error error = {.status = PEN_OK};
        answer.reply.serial = serial_of(meta, bytes);
        meta_refusal(&broker->arena, "the question's meta is no ControlRequest (proto/control.proto)", &error);
        control_fail(&answer, error.status, error.text);
    }
    answer_send(broker, session, &answer);
    meta_arena_fini(&answer.arena);
}
