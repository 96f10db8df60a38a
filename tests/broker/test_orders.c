/* Orders that workers carry out: load and unload, who is asked and what is told of it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "desk.h"
#include "folder.h"

static const struct wire_model one = {.name = "net",
                                      .version = 1,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .warm_us = 50000,
                                      .digest = 1,
                                      .cacheable = true};

static struct desk *open_desk(void)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){
                    .uuid = 7, .name = "w", .slots = 1, .models = &one, .models_count = 1, .takes_orders = true});
    desk_client(desk, 1, 0xA);
    return desk;
}

static void say_outcome(struct desk *desk, uint32_t peer, uint64_t serial, enum pen_status status, const char *error)
{
    uint8_t meta[1024];
    struct envelope env = envelope_make(FRAME_CONTROL_REPLY);
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    reply.serial = serial;
    reply.error = (char *)(uintptr_t)error;
    env.status = (uint8_t)status;
    desk_say_worker(desk, peer, env, meta, penstock__control_reply__pack(&reply, meta));
}

/* Asks; returns the serial that workers were asked under. */
static uint64_t begin(struct desk *desk, const char *verb, const char *argument, size_t workers)
{
    uint64_t serial = 0;
    desk_question(desk, 1, verb, argument);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_CONTROL), workers);
    for (size_t i = 0; i < workers; i++) {
        struct sent *sent = desk_next(&desk->workers, FRAME_CONTROL);
        Penstock__ControlRequest *request = penstock__control_request__unpack(NULL, sent->env.meta_bytes, sent->meta);
        cr_assert_str_eq(request->verb, verb);
        cr_assert_str_eq(request->argument, argument);
        serial = request->serial;
        penstock__control_request__free_unpacked(request, NULL);
    }
    cr_assert_null(desk_next(&desk->clients, FRAME_CONTROL_REPLY), "not before the workers have spoken");
    return serial;
}

static Penstock__ControlReply *end(struct desk *desk, enum pen_status expect)
{
    enum pen_status status;
    Penstock__ControlReply *reply = desk_answer(desk, &status);
    cr_assert_not_null(reply);
    cr_assert_eq(status, expect);
    return reply;
}

/* Answered at once. */
static Penstock__ControlReply *told(struct desk *desk, const char *verb, const char *argument, enum pen_status expect)
{
    desk_question(desk, 1, verb, argument);
    return end(desk, expect);
}

Test(orders, every_worker_that_takes_orders_is_asked_and_told_of)
{
    struct desk *desk = open_desk();
    desk_worker(desk, 901,
                &(struct wire_worker){
                    .uuid = 8, .name = "x", .slots = 1, .models = &one, .models_count = 1, .takes_orders = true});
    desk_worker(desk, 902,
                &(struct wire_worker){.uuid = 9, .name = "deaf", .slots = 1, .models = &one, .models_count = 1});
    uint64_t serial = begin(desk, "load", "net:3", 2);
    say_outcome(desk, 901, serial, PEN_ERR_CORRUPT, "the file is cut");
    say_outcome(desk, 901, serial, PEN_OK, "twice does not count");
    say_outcome(desk, 902, serial, PEN_OK, "nobody asked");
    cr_assert_null(desk_next(&desk->clients, FRAME_CONTROL_REPLY));
    say_outcome(desk, 900, serial, PEN_OK, "");
    Penstock__ControlReply *reply = end(desk, PEN_OK);
    cr_assert_eq(reply->n_outcomes, 2);
    cr_assert_str_eq(reply->outcomes[0]->worker, "w");
    cr_assert_eq(reply->outcomes[1]->status, PEN_ERR_CORRUPT);
    cr_assert_str_eq(reply->outcomes[1]->error, "the file is cut");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

/* Which lines the file of --audit-log has of orders, one behind the other. */
Test(orders, one_that_all_workers_failed_at_is_in_the_audit_log_as_failed)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 8];
    struct desk *desk = open_desk();
    folder_new(folder);
    snprintf(path, sizeof path, "%s/audit", folder);
    cr_assert_eq(audit_new(path, &desk->broker.audit, NULL), PEN_OK);
    say_outcome(desk, 900, begin(desk, "load", "good", 1), PEN_OK, "");
    penstock__control_reply__free_unpacked(end(desk, PEN_OK), NULL);
    say_outcome(desk, 900, begin(desk, "unload", "other", 1), PEN_ERR_NOT_FOUND, "it does not serve that");
    penstock__control_reply__free_unpacked(end(desk, PEN_ERR_NOT_FOUND), NULL);
    char *lines = file_read(path, NULL), *line = lines;
    static const char *const expected[] = {"verb=load argument=\"good\" status=OK\n",
                                           "verb=unload argument=\"other\" status=OK\n",
                                           "verb=unload argument=\"other\" status=NOT_FOUND\n"};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        line = strstr(line, expected[i]);
        cr_assert_not_null(line, "line %zu of:\n%s", i, lines);
        line += strlen(expected[i]);
    }
    cr_assert_eq(*line, '\0', "%s", lines);
    free(lines);
    audit_free(desk->broker.audit);
    desk->broker.audit = NULL;
    desk_free(desk);
    folder_free(folder);
}

Test(orders, when_all_fail_the_first_reason_is_the_answer)
{
    struct desk *desk = open_desk();
    say_outcome(desk, 900, begin(desk, "unload", "other", 1), PEN_ERR_NOT_FOUND, "it does not serve that");
    Penstock__ControlReply *reply = end(desk, PEN_ERR_NOT_FOUND);
    cr_assert_str_eq(reply->error, "it does not serve that");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(orders, a_lost_worker_and_silence_are_answers_too)
{
    struct desk *desk = open_desk();
    begin(desk, "load", "net", 1);
    desk_say_worker(desk, 900, envelope_make(FRAME_GOODBYE), NULL, 0);
    penstock__control_reply__free_unpacked(end(desk, PEN_ERR_WORKER_LOST), NULL);
    penstock__control_reply__free_unpacked(told(desk, "load", "net", PEN_ERR_UNAVAILABLE), NULL);
    penstock__control_reply__free_unpacked(told(desk, "load", "", PEN_ERR_INVALID), NULL);
    desk_free(desk);
}

Test(orders, so_many_at_a_time)
{
    struct desk *desk = open_desk();
    for (size_t i = 0; i < FLEET_ORDERS_MAX; i++)
        begin(desk, "load", "net", 1);
    desk_question(desk, 1, "load", "net");
    penstock__control_reply__free_unpacked(end(desk, PEN_ERR_BUSY), NULL);
    desk_free(desk); /* frees those that nobody has answered */
}
