/* What `penstock` asks and orders: models, workers, stats, drain. */
#include <criterion/criterion.h>
#include <string.h>

#include "flow_desk.h"

Test(control, models_workers_and_stats_are_told)
{
    struct desk *desk = flow_desk(3);
    flow_submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    Penstock__ControlReply *reply = desk_ask(desk, "models", "", NULL);
    cr_assert_eq(reply->n_models, 5);
    cr_assert_str_eq(reply->models[0]->name, "slow");
    cr_assert_eq(reply->models[0]->running, 1);
    cr_assert_eq(reply->models[0]->n_offers, 1);
    cr_assert_str_eq(reply->models[0]->worker_names[0], "one");
    cr_assert_str_eq(reply->models[0]->inputs[0]->name, "x");
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = desk_ask(desk, "workers", "", NULL);
    cr_assert_eq(reply->n_workers, 1);
    cr_assert_str_eq(reply->workers[0]->state, "ready");
    cr_assert_eq(reply->workers[0]->jobs_running, 1);
    cr_assert_eq(reply->workers[0]->slots, 3);
    cr_assert_str_eq(reply->workers[0]->models[0], "slow:1");
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = desk_ask(desk, "stats", "", NULL);
    cr_assert_eq(reply->stats->jobs_admitted, 1);
    cr_assert_eq(reply->stats->running, 1);
    cr_assert_eq(reply->stats->workers, 1);
    cr_assert_eq(reply->stats->clients, 1);
    cr_assert_gt(reply->stats->rss_bytes, 0);
    cr_assert_str_eq(reply->stats->cache_kind, "memory");
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = desk_ask(desk, "dance", "", NULL);
    cr_assert_not_null(strstr(reply->error, "unknown verb"));
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

/* Lists and logs are read in terminals. */
Test(control, names_of_workers_cannot_steer_a_terminal)
{
    struct desk *desk = flow_desk(1);
    desk_worker(desk, 930, &(struct wire_worker){.uuid = 30, .name = "a\nb\x1b[31m\xc2\x9bm \xc3\xa9", .slots = 1});
    Penstock__ControlReply *reply = desk_ask(desk, "workers", "", NULL);
    cr_assert_eq(reply->n_workers, 2);
    cr_assert_str_eq(reply->workers[1]->name, "a?b?[31m??m \xc3\xa9");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(control, drain_reaches_workers_by_name_and_the_broker)
{
    struct desk *desk = flow_desk(1);
    penstock__control_reply__free_unpacked(desk_ask(desk, "drain", "one", NULL), NULL);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_DRAIN));
    Penstock__ControlReply *reply = desk_ask(desk, "drain", "nobody", NULL);
    cr_assert_not_null(strstr(reply->error, "no worker of that name"));
    penstock__control_reply__free_unpacked(reply, NULL);
    penstock__control_reply__free_unpacked(desk_ask(desk, "drain", "", NULL), NULL);
    cr_assert(desk->broker.draining);
    desk_free(desk);
}
