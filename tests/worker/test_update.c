/* A changed list of models on its way to the brokers, by a clock of the test's own: who is told, and when nobody asks for what was withdrawn any more. */
#include "net_side.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include "update.h"
#include "watch.h"

/* ---- the watch's side (--wrap) ---------------------------------------------------------------------------------------------------- */

static struct hello *posted;
static uint64_t generation, settled;

struct hello *__wrap_watch_take(struct watch *watch, uint64_t *ret_generation);
void __wrap_watch_settled(struct watch *watch, uint64_t number);

struct hello *__wrap_watch_take(struct watch *watch, uint64_t *ret_generation)
{
    struct hello *hello = posted;
    (void)watch;
    posted = NULL;
    if (hello)
        *ret_generation = generation;
    return hello;
}

void __wrap_watch_settled(struct watch *watch, uint64_t number)
{
    (void)watch;
    settled = number;
}

static void setup(void)
{
    cr_redirect_stderr();
    net_open(2);
    posted = NULL;
    generation = settled = 0;
}

TestSuite(update, .init = setup, .fini = net_close);

static void change(void)
{
    const struct hello_facts facts = {.catalog = &one_slot_catalog,
                                      .engine = one_slot_engine,
                                      .options = &net_options,
                                      .identity = net_serve.identity,
                                      .host = "host",
                                      .uuid = 77,
                                      .slots = 1};
    cr_assert(hello_new(&facts, &posted, &one_slot_error) == PEN_OK);
    generation++;
}

static void tick(void)
{
    update_tick(&net_serve.update, &net_brokers, net_now_us);
}

static void take(void)
{
    messages_receive(&net_serve, net_now_us);
}

static void told(size_t i)
{
    net_expect(i, FRAME_WORKER_UPDATE);
    net_expect(i, FRAME_PING);
}

static void read_by(size_t i)
{
    net_send_type(i, FRAME_PONG);
    take();
    tick();
}

Test(update, every_broker_is_told_and_the_change_settles_when_all_have_read_it)
{
    net_serve_link(0, 5);
    net_serve_link(1, 6);
    tick();
    net_silent(0);
    change();
    tick();
    told(0);
    told(1);
    tick();
    net_silent(0);
    net_silent(1);
    read_by(0);
    cr_assert_eq(settled, 0u, "one broker may still send jobs for what goes");
    read_by(1);
    cr_assert_eq(settled, 1u);
}

Test(update, a_job_that_came_before_it_was_read_holds_it)
{
    net_serve_link(0, 5);
    net_submit(0, 1, 1, 0);
    take();
    change();
    tick();
    told(0);
    net_now_us += 1000;
    read_by(0);
    cr_assert_eq(settled, 0u);
    struct dispatch *dispatch = handoff_poll(net_serve.handoff);
    exclusive_finished(&net_serve.exclusive, dispatch);
    in_flight_remove(&net_brokers.links[0].in_flight, dispatch);
    dispatch_free(dispatch);
    tick();
    cr_assert_eq(settled, 1u);
}

/* Their next hello has the new list. */
Test(update, brokers_without_a_connection_hold_nothing)
{
    change();
    tick();
    net_silent(0);
    cr_assert_eq(settled, 1u);
}

Test(update, a_new_connection_has_the_list_in_its_hello)
{
    net_serve_link(0, 5);
    change();
    tick();
    told(0);
    link_reconnect(&net_brokers.links[0], net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    tick();
    cr_assert_eq(settled, 1u);
}

Test(update, a_newer_change_is_told_anew)
{
    net_serve_link(0, 5);
    change();
    tick();
    told(0);
    change();
    tick();
    told(0);
    read_by(0);
    cr_assert_eq(settled, 0u, "that was the PING of the first");
    read_by(0);
    cr_assert_eq(settled, 2u);
}
