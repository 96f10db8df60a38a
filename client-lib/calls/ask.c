#include "ask.h"

#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "drive.h"

static enum pen_status pack(struct ask *ask, const char *verb, const char *argument)
{
    Penstock__ControlRequest request = PENSTOCK__CONTROL_REQUEST__INIT;
    request.verb = (char *)(uintptr_t)verb;
    request.argument = (char *)(uintptr_t)(argument ? argument : "");
    request.serial = ask->serial;
    ask->packed_bytes = penstock__control_request__get_packed_size(&request);
    ask->packed = malloc(ask->packed_bytes);
    if (!ask->packed) {
        return pen_error_set(&ask->error, PEN_ERR_NO_MEMORY, "no memory for the question.");
    }
    penstock__control_request__pack(&request, ask->packed);
    return PEN_OK;
}

enum pen_status ask_run(struct pen_client *c, struct ask *ask, const char *verb, const char *argument,
                        int64_t timeout_us, struct pen_error *reterr)
{
    uint64_t limit_us = timeout_us < 0 ? DEADLINE_NONE : clock_now_us() + (uint64_t)timeout_us;
    memset(ask, 0, sizeof *ask);
    meta_arena_init(&ask->arena, QUESTION_ARENA_BYTES);
    if (argument && strlen(argument) > 4096) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the argument of \"%s\" is longer than 4096 bytes.", verb);
    }
    pthread_mutex_lock(&c->lock);
    ask->serial = ++c->asks_serial;
    enum pen_status status = pack(ask, verb, argument);
    if (status == PEN_OK && c->session.state == SESSION_REFUSED) {
        ask->error = c->session.refusal;
        status = ask->error.status;
    } else if (status == PEN_OK) {
        asks_add(c, ask);
        drive_kick(c);
        drive_until(c, &ask->done, limit_us);
        asks_remove(c, ask);
        status = ask->done ? ask->status : PEN_ERR_UNAVAILABLE;
    }
    pthread_mutex_unlock(&c->lock);
    if (status == PEN_ERR_UNAVAILABLE && !ask->done) {
        return pen_error_set(reterr, status,
                             "no answer to \"%s\" from a broker at %s in time; is penstock-broker running there?", verb,
                             c->endpoint);
    }
    return status == PEN_OK ? status : pen_error_set(reterr, status, "%s", ask->error.text);
}

void ask_fini(struct ask *ask)
{
    meta_arena_fini(&ask->arena);
    free(ask->packed);
    ask->packed = NULL;
    ask->reply = NULL;
}

enum pen_status ask_command(struct pen_client *c, const char *verb, const char *argument, int64_t timeout_us,
                            struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(c, &ask, verb, argument, timeout_us, reterr);
    ask_fini(&ask);
    return status;
}

enum pen_status ask_no_memory(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the broker's answer.");
}

/* The arena is never allocated from again, so its new place does not matter. */
void ask_arena_take(struct ask *ask, struct meta_arena *to)
{
    *to = ask->arena;
    meta_arena_init(&ask->arena, 0);
}
