/*
 * command.c - what is done to the pool, and what is answered with one text: drain, cancel, traces, log levels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "job_check.h"

enum pen_status pen_client_drain(pen_client *client, const char *worker_name, int64_t timeout_us,
                                 struct pen_error *reterr)
{
    return ask_command(client, "drain", worker_name, timeout_us, reterr);
}

enum pen_status pen_client_cancel(pen_client *client, const char *job_id, int64_t timeout_us, struct pen_error *reterr)
{
    struct job_id id;
    if (!job_id || job_id_parse(job_id, &id) != 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "\"%s\" " JOB_ID_REFUSED ".", job_id ? job_id : "");
    }
    return ask_command(client, "cancel", job_id, timeout_us, reterr);
}

enum pen_status pen_client_cancel_own(pen_client *client, const char *job_id, const char *secret, int64_t timeout_us,
                                      struct pen_error *reterr)
{
    char argument[JOB_ID_TEXT_BYTES + 1 + DETACHED_SECRET_MAX];
    struct job_id id;
    if (!job_id || job_id_parse(job_id, &id) != 0 || !secret || !*secret || strlen(secret) > DETACHED_SECRET_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "name the job, such as 0123456789abcdef-42, and its secret of 1 to %d bytes.",
                             DETACHED_SECRET_MAX);
    }
    snprintf(argument, sizeof argument, "%s %s", job_id_text(id, (char[JOB_ID_TEXT_BYTES]){0}), secret);
    return ask_command(client, "cancel", argument, timeout_us, reterr);
}

/* An answer that is one text, copied out of the reply. */
static enum pen_status ask_text(pen_client *client, const char *verb, const char *argument, int64_t timeout_us,
                                char **ret_text, struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(client, &ask, verb, argument, timeout_us, reterr);
    if (status == PEN_OK && ret_text) {
        char *text = strdup(ask.reply->text);
        if (text) {
            *ret_text = text;
        } else {
            status = ask_no_memory(reterr);
        }
    }
    ask_fini(&ask);
    return status;
}

enum pen_status pen_client_trace(pen_client *client, const char *what, int64_t timeout_us, char **ret_text,
                                 struct pen_error *reterr)
{
    return ask_text(client, "trace", what, timeout_us, ret_text, reterr);
}

enum pen_status pen_client_log_level(pen_client *client, const char *level, const char *whom, int64_t timeout_us,
                                     char **ret_text, struct pen_error *reterr)
{
    char argument[512];
    int bytes = snprintf(argument, sizeof argument, "%s%s%s", level ? level : "", whom ? " " : "", whom ? whom : "");
    if (bytes < 0 || (size_t)bytes >= sizeof argument) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the worker's name is too long.");
    }
    return ask_text(client, "log-level", argument, timeout_us, ret_text, reterr);
}

enum pen_status pen_client_arrivals(pen_client *client, const char *since, int64_t timeout_us, char **ret_text,
                                    struct pen_error *reterr)
{
    return ask_text(client, "arrivals", since, timeout_us, ret_text, reterr);
}

void pen_text_free(char *text)
{
    free(text);
}

enum pen_status pen_client_model_shadow_told(pen_client *client, const char *model, int64_t timeout_us, char **ret_json,
                                             struct pen_error *reterr)
{
    if (!model || !*model || strchr(model, ' ')) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "name the model, without its version.");
    }
    return ask_text(client, "shadow", model, timeout_us, ret_json, reterr);
}
