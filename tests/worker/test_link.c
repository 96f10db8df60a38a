/* The connection to one broker, by a clock of the test's own: hello, welcome, heartbeats, silence, refusals, what waits to be sent. */
#include "net_side.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "control.pb-c.h"
#include "deadline.h"
#include "link_pack.h"

static struct link *link;
static struct pen_error error;

static void setup(void)
{
    cr_redirect_stderr();
    net_open(1);
    link = &net_brokers.links[0];
}

TestSuite(link, .init = setup, .fini = net_close);

static void connect_now(void)
{
    cr_assert(link_connect(link, net_now_us, &error) == PEN_OK, "%s", error.text);
    net_expect(0, FRAME_WORKER_HELLO);
}

static void welcome(enum pen_status status, const char *text)
{
    net_welcome(0, 5, status, text);
    messages_receive(&net_serve, net_now_us);
}

static void at(uint64_t us)
{
    net_now_us = NET_START_US + us;
}

Test(link, a_hello_says_who_it_is_and_what_it_holds)
{
    link_reply(link, net_reply(9, 10)); /* waits: nothing is connected */
    link_reply(link, net_reply(8, 10));
    connect_now();
    const Penstock__WorkerHello *hello = net_meta(&penstock__worker_hello__descriptor);
    cr_assert(hello->uuid == 77 && hello->slots == 1 && hello->takes_orders && hello->runs_alone && hello->bulk);
    cr_assert_str_eq(hello->name, "w");
    cr_assert_str_eq(hello->host, "host");
    cr_assert(hello->n_models == 0 && hello->n_flags > 3);
    cr_assert(hello->n_running == 2 && hello->running[0]->sequence == 9 && hello->running[1]->sequence == 8);
    cr_assert(link->state == LINK_HELLO && link->hellos == 1 && link->hello_us == net_now_us);
    cr_assert(link_beat_due_us(link) == DEADLINE_NONE, "no heartbeat before the welcome");
    cr_assert(link_next_us(link) == net_now_us + 1000000);
}

Test(link, a_welcome_sets_the_times_in_force)
{
    connect_now();
    at(100);
    welcome(PEN_OK, "");
    cr_assert(link->state == LINK_SERVING && link->broker_uuid == 5);
    cr_assert(link->heartbeat_us == 400000 && link->liveness_us == 2000000);
    cr_assert(link_beat_due_us(link) == NET_START_US + 300000, "three quarters of the interval");
    cr_assert(link_next_us(link) == NET_START_US + 300000);
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    at(1900000);
    link_heartbeat(link, &beat, net_now_us);
    net_expect(0, FRAME_HEARTBEAT);
    cr_assert(link_beat_due_us(link) == net_now_us + 300000);
    cr_assert(link_next_us(link) == NET_START_US + 100 + 2000000, "silence comes first");
}

Test(link, own_times_go_before_the_brokers_and_none_is_too_short)
{
    connect_now();
    net_options.heartbeat_us = 50000;
    net_options.liveness_us = 70000;
    welcome(PEN_OK, "");
    cr_assert(link->heartbeat_us == 50000 && link->liveness_us == 70000);
    net_options.heartbeat_us = net_options.liveness_us = 1;
    welcome(PEN_OK, "");
    cr_assert(link->heartbeat_us == 1000 && link->liveness_us == 20000);
    net_options.heartbeat_us = net_options.liveness_us = 0;
    const struct envelope env = envelope_make(FRAME_WELCOME);
    const Penstock__Welcome silent = PENSTOCK__WELCOME__INIT;
    net_send(0, &env, &silent.base);
    messages_receive(&net_serve, net_now_us);
    cr_assert(link->heartbeat_us == 1000000 && link->liveness_us == 5000000, "what neither says");
}

Test(link, a_welcome_says_where_large_payloads_go)
{
    Penstock__Welcome told = PENSTOCK__WELCOME__INIT;
    const struct envelope env = envelope_make(FRAME_WELCOME);
    connect_now();
    told.broker_uuid = 5;
    told.bulk_bytes = 1234;
    told.bulk_port = 7000;
    told.max_frame_bytes = 777777;
    told.liveness_us = 3000000;
    net_send(0, &env, &told.base);
    messages_receive(&net_serve, net_now_us);
    cr_assert(link->transfers.from_bytes == 1234 && link->max_frame_bytes == 777777);
    cr_assert(link->transfers.way.port == 7000 && link->transfers.way.broker == 5);
    cr_assert(link->transfers.way.wait_us == 1500000, "half of the liveness");
}

Test(link, a_welcome_that_cannot_be_read_counts_as_dropped)
{
    uint8_t bytes[FRAME_ENVELOPE_BYTES + 2] = {0};
    struct envelope env = envelope_make(FRAME_WELCOME);
    env.meta_bytes = 2;
    memset(envelope_encode(&env, bytes), 0xff, 2);
    connect_now();
    net_send_bytes(0, bytes, sizeof bytes);
    messages_receive(&net_serve, net_now_us);
    cr_assert(link->state == LINK_HELLO && atomic_load(&net_stats.messages_dropped) == 1);
    welcome(PEN_OK, "");
    cr_assert(link->state == LINK_SERVING);
    link_close(link, 0);
    struct envelope late = envelope_make(FRAME_WELCOME);
    link_welcome(link, &late, bytes, net_now_us);
    cr_assert(link->state == LINK_CLOSED, "a welcome of a connection that is closed");
}

Test(link, silence_makes_a_new_connection)
{
    connect_now();
    welcome(PEN_OK, "");
    at(1999999);
    link_check(link, net_now_us);
    net_silent(0);
    cr_assert(link->state == LINK_SERVING);
    at(2000000);
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->state == LINK_HELLO && link->hellos == 2 && link->unanswered == 0);
    cr_assert(link_next_us(link) == net_now_us + 1000000);
    at(3000000);
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->unanswered == 1);
    cr_assert(link_next_us(link) == net_now_us + 2000000, "a slow broker gets twice as long");
    at(5000000);
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->unanswered == 2 && link_next_us(link) == net_now_us + 2000000, "and never longer");
    welcome(PEN_OK, "");
    cr_assert(link->unanswered == 0);
}

static char log_text[65536];

static size_t logged(const char *part)
{
    size_t used = strlen(log_text), count = 0;
    fflush(stderr);
    used += fread(log_text + used, 1, sizeof log_text - 1 - used, cr_get_redirected_stderr());
    log_text[used] = '\0';
    for (const char *at = strstr(log_text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

Test(link, silence_is_told_now_and_then)
{
    connect_now();
    at(1000000);
    link_check(link, net_now_us);
    cr_assert(logged("evt=broker_unreachable") == 1, "%s", log_text);
    for (uint64_t us = 3000000; us < 11000000; us += 2000000) {
        at(us);
        link_check(link, net_now_us);
    }
    cr_assert(logged("evt=broker_unreachable") == 1, "%s", log_text);
    at(11000000);
    link_check(link, net_now_us);
    cr_assert(logged("evt=broker_unreachable") == 2, "every ten seconds: %s", log_text);
    for (size_t i = 0; i < 6; i++)
        net_expect(0, FRAME_WORKER_HELLO);
    welcome(PEN_OK, "");
    at(13000000);
    link_check(link, net_now_us);
    cr_assert(logged("evt=broker_silent") == 1, "a welcome begins anew: %s", log_text);
}

Test(link, a_parked_link_is_not_silent)
{
    connect_now();
    welcome(PEN_OK, "");
    link_park(link, net_now_us + 7000000);
    at(7000000);
    link_check(link, net_now_us);
    cr_assert(logged("evt=broker_silent") == 0 && logged("evt=broker_unreachable") == 0, "%s", log_text);
}

Test(link, any_message_ends_the_silence)
{
    connect_now();
    welcome(PEN_OK, "");
    at(1500000);
    net_send_type(0, FRAME_HEARTBEAT);
    messages_receive(&net_serve, net_now_us);
    at(3000000);
    link_check(link, net_now_us);
    cr_assert(link->state == LINK_SERVING && link->received_us == NET_START_US + 1500000);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------------------- */

Test(link, a_refusal_is_for_good)
{
    connect_now();
    welcome(PEN_ERR_DENIED, "not on the list");
    cr_assert(link->state == LINK_REFUSED && link->exit_code == WORKER_EXIT_REFUSED);
    at(100000000);
    link_check(link, net_now_us);
    net_silent(0);
    int code = 0;
    cr_assert(brokers_refused(&net_brokers, &code) && code == WORKER_EXIT_REFUSED);
}

Test(link, another_version_is_a_refusal_of_its_own)
{
    connect_now();
    link_version(link, "version 9");
    cr_assert(link->state == LINK_REFUSED && link->exit_code == WORKER_EXIT_VERSION);
    connect_now();
    welcome(PEN_OK, "");
    link_version(link, "version 9");
    cr_assert(link->state == LINK_SERVING, "one who serves us was understood before");
}

Test(link, what_may_pass_is_tried_again)
{
    connect_now();
    welcome(PEN_ERR_BUSY, "too many workers");
    cr_assert(link->state == LINK_HELLO && link->broker_uuid == 0);
    at(1000000);
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
}

Test(link, a_broker_that_knew_us_may_deny_us_for_a_while)
{
    net_options.denied_wait_us = 10000000;
    connect_now();
    welcome(PEN_OK, "");
    link_resume(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    at(1000);
    welcome(PEN_ERR_DENIED, "not on the list");
    cr_assert(link->state == LINK_HELLO && link->denied_us == net_now_us);
    at(9000000);
    welcome(PEN_ERR_DENIED, "not on the list");
    cr_assert(link->denied_us == NET_START_US + 1000, "counted from the first");
    at(10000999);
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->state == LINK_HELLO);
    at(10001000);
    link_check(link, net_now_us);
    cr_assert(link->state == LINK_REFUSED && link->exit_code == WORKER_EXIT_REFUSED);
}

Test(link, a_welcome_ends_the_denial)
{
    net_options.denied_wait_us = 10000000;
    connect_now();
    welcome(PEN_OK, "");
    welcome(PEN_ERR_DENIED, "not on the list");
    welcome(PEN_OK, "");
    cr_assert(link->denied_us == 0 && link->state == LINK_SERVING);
    net_options.denied_wait_us = 0;
    welcome(PEN_ERR_DENIED, "not on the list");
    cr_assert(link->state == LINK_REFUSED, "no wait is wanted");
}

/* ---- the connection ------------------------------------------------------------------------------------------------------------- */

Test(link, a_resume_says_hello_on_the_same_connection)
{
    connect_now();
    void *socket = link->socket;
    at(49999);
    net_send_type(0, FRAME_RESUME);
    messages_receive(&net_serve, net_now_us);
    net_silent(0);
    at(50000);
    net_send_type(0, FRAME_RESUME);
    messages_receive(&net_serve, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->socket == socket && link->hellos == 2 && link->hello_us == net_now_us);
    welcome(PEN_OK, "");
    net_send_type(0, FRAME_RESUME);
    messages_receive(&net_serve, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->state == LINK_HELLO);
}

Test(link, a_parked_link_comes_back_in_time)
{
    connect_now();
    welcome(PEN_OK, "");
    link_park(link, net_now_us + 7000000);
    cr_assert(link->state == LINK_CLOSED && !link->socket);
    cr_assert(link_next_us(link) == NET_START_US + 7000000);
    at(6999999);
    link_check(link, net_now_us);
    cr_assert(!link->socket);
    at(7000000);
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->parked_until_us == 0 && link->unanswered == 0);
}

Test(link, jobs_that_are_given_back_need_a_new_connection)
{
    connect_now();
    welcome(PEN_OK, "");
    link_give_back(link);
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->hellos == 2 && !link->gives_back);
    link_check(link, net_now_us);
    net_silent(0);
}

Test(link, pongs_are_of_the_pings_of_this_connection)
{
    connect_now();
    welcome(PEN_OK, "");
    cr_assert(link_ping(link) == 1 && link_ping(link) == 2);
    net_expect(0, FRAME_PING);
    net_expect(0, FRAME_PING);
    net_send_type(0, FRAME_PONG);
    messages_receive(&net_serve, net_now_us);
    cr_assert(link->pongs == 1);
    connect_now();
    cr_assert(link->pings == 0 && link->pongs == 0 && link->pings_owed == 0);
    link_close(link, 0);
    cr_assert(link_ping(link) == 1 && link->pings_owed == 1, "counted, and sent when there is a way");
    cr_assert(!link_send_envelope(link, &(struct envelope){.type = FRAME_PING}));
}

Test(link, connections_that_cannot_be_made_are_tried_again)
{
    link->endpoint = "nonsense";
    cr_assert(link_connect(link, net_now_us, &error) == PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "nonsense is no endpoint"), "%s", error.text);
    link_check(link, net_now_us);
    cr_assert(link->hello_us == net_now_us && link->state == LINK_CLOSED);
    cr_assert(link_next_us(link) == net_now_us + 1000000);
    link->endpoint = "inproc://first";
    net_options.key = "/nowhere/key";
    net_options.broker_key = "/nowhere/broker";
    cr_assert(link_connect(link, net_now_us, &error) != PEN_OK, "without its key it says nothing");
    net_silent(0);
    net_options.key = net_options.broker_key = "";
    at(1000000);
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
}

/* A dead broker is noticed, a lost one is found again soon, and no result is dropped by a queue that is full. */
Test(link, its_socket_has_the_settings_of_a_connection_for_days)
{
    static const int wanted[][2] = {{ZMQ_SNDHWM, 0},
                                    {ZMQ_RCVHWM, 1000},
                                    {ZMQ_LINGER, 0},
                                    {ZMQ_RECONNECT_IVL, 20},
                                    {ZMQ_RECONNECT_IVL_MAX, 500},
                                    {ZMQ_TCP_KEEPALIVE, 1},
                                    {ZMQ_TCP_KEEPALIVE_IDLE, 30},
                                    {ZMQ_TCP_KEEPALIVE_INTVL, 5},
                                    {ZMQ_TCP_KEEPALIVE_CNT, 3}};
    int64_t limit = 0;
    size_t bytes = sizeof limit;
    net_options.frame_limit = 123456;
    connect_now();
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        int value = -7;
        size_t size = sizeof value;
        cr_assert(zmq_getsockopt(link->socket, wanted[i][0], &value, &size) == 0);
        cr_expect(value == wanted[i][1], "option %d is %d", wanted[i][0], value);
    }
    cr_assert(zmq_getsockopt(link->socket, ZMQ_MAXMSGSIZE, &limit, &bytes) == 0);
    cr_expect(limit == 123456);
    cr_expect(link->sockets == 1);
    connect_now();
    cr_expect(link->sockets == 2);
}

/* ---- what is sent ---------------------------------------------------------------------------------------------------------------- */

Test(link, results_wait_for_a_welcome_in_their_order)
{
    for (uint64_t i = 1; i <= 3; i++) {
        struct reply *reply = net_reply(i, 100);
        reply->next = reply; /* it was in a list */
        link_reply(link, reply);
        cr_assert(link->unsent_last == reply && !reply->next);
    }
    cr_assert(link->unsent_bytes == 300);
    connect_now();
    link_reply(link, net_reply(4, 100));
    net_silent(0);
    welcome(PEN_OK, "");
    for (uint64_t i = 1; i <= 4; i++)
        net_answered(0, i, PEN_OK, "");
    cr_assert(!link->unsent && !link->unsent_last && link->unsent_bytes == 0);
    link_reply(link, net_reply(5, 100));
    net_answered(0, 5, PEN_OK, "");
    link_reply(link, reply_new(1, 1)); /* without a frame there is nothing to say */
    net_silent(0);
    net_log_clean();
}

static void welcome_packs(uint32_t pack_bytes)
{
    Penstock__Welcome told = PENSTOCK__WELCOME__INIT;
    const struct envelope env = envelope_make(FRAME_WELCOME);
    told.broker_uuid = 5;
    told.pack_bytes = pack_bytes;
    net_send(0, &env, &told.base);
    messages_receive(&net_serve, net_now_us);
}

/* Results of one turn of the loop leave as one message, in their order; alone each goes by itself. */
Test(link, results_that_are_held_leave_together)
{
    struct pack_reader reader;
    struct pack_item item;
    struct envelope env;
    const uint8_t *meta;
    uint64_t next = 1;
    connect_now();
    welcome_packs(65536);
    link_hold(link);
    for (uint64_t i = 1; i <= 3; i++)
        link_reply(link, net_reply(i, 100 + i));
    net_silent(0);
    cr_assert(link_release(link) && link->going.messages == 0);
    net_expect(0, FRAME_PACK);
    cr_assert(pack_reader_open(&reader, net_got.meta, net_got.env.meta_bytes, &error) == PEN_OK, "%s", error.text);
    while (pack_next(&reader, &item)) {
        if (item.bytes < FRAME_ENVELOPE_BYTES)
            continue;
        cr_assert(envelope_decode(item.data, item.bytes, &env, &meta, NULL) == PEN_OK);
        cr_assert(env.type == FRAME_RESULT && env.job.sequence == next++);
    }
    cr_assert(next == 4);
    net_silent(0);
    link_reply(link, net_reply(4, 100));
    net_answered(0, 4, PEN_OK, "");
    link_hold(link);
    link_reply(link, net_reply(5, 100));
    link_send(link, FRAME_GOODBYE);
    net_answered(0, 5, PEN_OK, ""); /* what is held goes before what comes after it */
    net_expect(0, FRAME_GOODBYE);
    cr_assert(link_release(link));
    net_silent(0);
}

Test(link, a_broker_that_takes_no_packs_gets_none)
{
    connect_now();
    welcome_packs(0);
    link_hold(link);
    link_reply(link, net_reply(1, 100));
    link_reply(link, net_reply(2, 100));
    net_answered(0, 1, PEN_OK, "");
    net_answered(0, 2, PEN_OK, "");
    cr_assert(link_release(link));
    net_silent(0);
}

Test(link, what_is_held_without_a_connection_is_lost_and_told)
{
    connect_now();
    welcome_packs(65536);
    link_hold(link);
    link_reply(link, net_reply(1, 100));
    void *socket = link->socket;
    link->socket = NULL;
    cr_assert_not(link_release(link));
    cr_assert(link->going.messages == 0 && logged("evt=send_failed") == 1);
    link->socket = socket;
}

Test(link, the_oldest_results_go_when_too_many_wait)
{
    struct reply *replies[3];
    for (uint64_t i = 0; i < 3; i++) {
        replies[i] = net_reply(i + 1, 8);
        replies[i]->bytes = 128u << 20; /* as if */
    }
    link_reply(link, replies[0]);
    link_reply(link, replies[1]);
    cr_assert(link->unsent == replies[0] && link->unsent_bytes == 256u << 20, "what the limit allows");
    link_reply(link, replies[2]);
    cr_assert(link->unsent == replies[1] && link->unsent_last == replies[2] && link->unsent_bytes == 256u << 20);
    struct reply *large = net_reply(4, 8);
    large->bytes = 300u << 20;
    link_reply(link, large);
    cr_assert(link->unsent == large && link->unsent_last == large && link->unsent_bytes == 300u << 20,
              "the newest is kept even so");
}

Test(link, a_frame_above_the_brokers_limit_becomes_an_error)
{
    connect_now();
    welcome(PEN_OK, "");
    link->max_frame_bytes = 3000;
    link_reply(link, net_reply(1, 3000));
    net_answered(0, 1, PEN_OK, "");
    link_reply(link, net_reply(2, 3001));
    net_answered(0, 2, PEN_ERR_TOO_LARGE, "above the 3000 bytes that the broker takes");
    link->max_frame_bytes = 0;
    link_reply(link, net_reply(3, 4096));
    net_answered(0, 3, PEN_OK, "");
}

Test(link, the_outcome_of_an_order_has_its_number_and_sentence)
{
    struct pen_error outcome = {0};
    cr_assert(!link_control_reply(link, 41, &outcome), "nothing is connected");
    connect_now();
    cr_assert(link_control_reply(link, 41, &outcome));
    net_expect(0, FRAME_CONTROL_REPLY);
    const Penstock__ControlReply *reply = net_meta(&penstock__control_reply__descriptor);
    cr_assert(reply->serial == 41 && !*reply->error && net_got.env.status == PEN_OK);
    pen_error_set(&outcome, PEN_ERR_NOT_FOUND, "no such model");
    cr_assert(link_control_reply(link, 42, &outcome));
    net_expect(0, FRAME_CONTROL_REPLY);
    reply = net_meta(&penstock__control_reply__descriptor);
    cr_assert(reply->serial == 42 && net_got.env.status == PEN_ERR_NOT_FOUND);
    cr_assert_str_eq(reply->error, "no such model");
}

Test(link, an_update_without_a_connection_is_none)
{
    cr_assert(link_update(link), "there is nobody to tell, and nothing to say again");
}

Test(link, an_update_has_the_models_of_the_hello)
{
    connect_now();
    welcome(PEN_OK, "");
    cr_assert(link_update(link));
    net_expect(0, FRAME_WORKER_UPDATE);
    const Penstock__WorkerUpdate *update = net_meta(&penstock__worker_update__descriptor);
    cr_assert(update->n_models == 0);
}
