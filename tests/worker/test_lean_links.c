/* Connections of a worker without memory, by a clock of the test's own: what a hello brings is read, what cannot be said is said soon, and an outcome goes on the
   connection that brought its order or nowhere. */
#include "net_side.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "control.pb-c.h"
#include "lean.h"
#include "outcomes.h"

#define SOON_US 50000u

static struct link *first, *second;

static void setup(void)
{
    cr_redirect_stderr();
    net_open(2);
    first = &net_brokers.links[0];
    second = &net_brokers.links[1];
}

static void teardown(void)
{
    lean_fail_none();
    net_close();
}

TestSuite(lean_links, .init = setup, .fini = teardown);

/* Every allocation of this thread fails until memory_back(). */
static void memory_gone(void)
{
    lean_watch(true);
    lean_fail_every(1, 0);
}

static void memory_back(void)
{
    lean_fail_none();
    lean_watch(false);
}

static void take(void)
{
    messages_receive(&net_serve, net_now_us);
}

Test(lean_links, the_answer_to_a_hello_needs_no_memory)
{
    cr_assert(link_connect(first, net_now_us, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    net_expect(0, FRAME_WORKER_HELLO);
    net_welcome(0, 5, PEN_OK, "");
    memory_gone();
    take();
    memory_back();
    cr_assert(first->state == LINK_SERVING && first->broker_uuid == 5 && first->liveness_us == 2000000);
}

Test(lean_links, a_refusal_is_understood_without_memory)
{
    cr_assert(link_connect(first, net_now_us, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    net_expect(0, FRAME_WORKER_HELLO);
    net_welcome(0, 5, PEN_ERR_INVALID, "no such worker");
    memory_gone();
    take();
    memory_back();
    cr_assert(first->state == LINK_REFUSED && first->exit_code == WORKER_EXIT_REFUSED);
}

/* Its memory could not be there before: it is asked for again soon, and not after the time of a silent broker. */
Test(lean_links, a_giant_welcome_without_memory_is_soon_asked_for_again)
{
    static char software[20000];
    static uint8_t bytes[sizeof software + 256];
    struct envelope env = envelope_make(FRAME_WELCOME);
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    memset(software, 'x', sizeof software - 1);
    welcome.software = software;
    env.meta_bytes = (uint32_t)penstock__welcome__get_packed_size(&welcome);
    penstock__welcome__pack(&welcome, envelope_encode(&env, bytes));
    cr_assert(link_connect(first, net_now_us, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    net_expect(0, FRAME_WORKER_HELLO);
    for (unsigned i = 0; i < 2; i++)
        net_send_bytes(0, bytes, FRAME_ENVELOPE_BYTES + env.meta_bytes);
    memory_gone();
    take();
    memory_back();
    cr_assert(first->state == LINK_HELLO && link_next_us(first) == net_now_us + SOON_US);
    net_now_us += SOON_US;
    link_check(first, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    net_send_bytes(0, bytes, FRAME_ENVELOPE_BYTES + env.meta_bytes);
    take();
    cr_assert(first->state == LINK_SERVING);
}

Test(lean_links, a_hello_without_memory_is_soon_said_again_wherever_it_is_said)
{
    cr_assert(link_connect(first, net_now_us, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    net_expect(0, FRAME_WORKER_HELLO);
    memory_gone();
    link_reconnect(first, net_now_us);
    memory_back();
    net_silent(0);
    cr_assert(first->state == LINK_CLOSED && link_next_us(first) == net_now_us + SOON_US);
    net_now_us += SOON_US;
    link_check(first, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    memory_gone();
    first->hello_us -= 900000; /* nobody has answered for so long */
    link_check(first, net_now_us + 200000);
    memory_back();
    cr_assert(link_next_us(first) == net_now_us + 200000 + SOON_US);
}

/* ---- outcomes --------------------------------------------------------------------------------------------------------------------- */

/* Broker `i` orders it, and it is done. */
static void order_done(size_t i, uint64_t serial)
{
    const struct envelope env = envelope_make(FRAME_CONTROL);
    Penstock__ControlRequest request = PENSTOCK__CONTROL_REQUEST__INIT;
    struct order order;
    request.verb = meta_text("load");
    request.argument = meta_text("digits");
    request.serial = serial;
    net_send(i, &env, &request.base);
    take();
    cr_assert(orders_take(net_serve.orders, &order) && order.serial == serial && order.link == i);
    orders_done(net_serve.orders, &order);
}

static void tell(void)
{
    outcomes_tell(net_serve.orders, &net_serve.update, &net_brokers, net_now_us);
}

static void told(size_t i, uint64_t serial)
{
    net_expect(i, FRAME_CONTROL_REPLY);
    const Penstock__ControlReply *reply = net_meta(&penstock__control_reply__descriptor);
    cr_assert(reply->serial == serial, "%u", (unsigned)reply->serial);
}

Test(lean_links, outcomes_go_to_those_who_gave_the_orders)
{
    net_serve_link(0, 5);
    net_serve_link(1, 6);
    order_done(1, 7);
    order_done(0, 8);
    tell();
    told(1, 7);
    told(0, 8);
    tell();
    net_silent(0);
    net_silent(1);
}

Test(lean_links, an_outcome_without_memory_is_told_at_a_later_turn)
{
    net_serve_link(0, 5);
    order_done(0, 7);
    memory_gone();
    tell();
    memory_back();
    net_silent(0);
    tell();
    told(0, 7);
}

/* The broker has ended the order together with the connection. */
Test(lean_links, an_outcome_goes_on_no_other_connection)
{
    net_serve_link(0, 5);
    order_done(0, 7);
    link_reconnect(first, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    tell();
    net_silent(0);
    net_welcome(0, 5, PEN_OK, "");
    take();
    order_done(0, 8);
    tell();
    told(0, 8);
}

Test(lean_links, a_broker_that_is_gone_holds_up_no_outcome_of_another)
{
    net_serve_link(0, 5);
    net_serve_link(1, 6);
    order_done(0, 7);
    order_done(1, 8);
    link_park(first, net_now_us + 1000000);
    tell();
    told(1, 8);
    link_check(first, net_now_us + 1000000);
    net_expect(0, FRAME_WORKER_HELLO);
    tell();
    net_silent(0);
    cr_assert(second->state == LINK_SERVING);
}
