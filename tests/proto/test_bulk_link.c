/* Where a bulk connection goes when the broker has a port for it, and whose threads carry it. */
#include "bulk_context.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <zmq.h>

#include "urgency.h"

Test(bulk_link, the_port_takes_the_place_of_the_endpoints_own)
{
    char text[BULK_ENDPOINT_BYTES];
    cr_assert(bulk_endpoint("tcp://127.0.0.1:5550", 7001, text, sizeof text));
    cr_expect_str_eq(text, "tcp://127.0.0.1:7001");
    cr_assert(bulk_endpoint("tcp://[::1]:5550", 65535, text, sizeof text));
    cr_expect_str_eq(text, "tcp://[::1]:65535");
}

Test(bulk_link, what_has_no_port_or_no_room_is_left_alone)
{
    char text[BULK_ENDPOINT_BYTES] = "as it was", narrow[20];
    static const struct {
        const char *endpoint;
        uint32_t port;
    } cases[] = {{"tcp://a:1", 0}, {"tcp://a:1", 65536}, {"ipc:///run/a:1", 7},
                 {"tcp://", 7},    {"inproc://a", 7},    {"", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_not(bulk_endpoint(cases[i].endpoint, cases[i].port, text, sizeof text), "%s", cases[i].endpoint);
    cr_expect_str_eq(text, "as it was");
    cr_expect_not(bulk_endpoint("tcp://127.0.0.1:5550", 7001, narrow, sizeof narrow));
}

static bool forbidden; /* by a sandbox */

/* In place of the real one (--wrap). */
int __real_setpriority(__priority_which_t which, id_t who, int value);
int __wrap_setpriority(__priority_which_t which, id_t who, int value);
int __wrap_setpriority(__priority_which_t which, id_t who, int value)
{
    if (!forbidden)
        return __real_setpriority(which, who, value);
    errno = EPERM;
    return -1;
}

Test(bulk_link, its_context_carries_messages_and_leaves_the_caller_as_it_was)
{
    char endpoint[256], text[8] = "";
    size_t bytes = sizeof endpoint;
    int nice = getpriority(PRIO_PROCESS, 0);
    void *context = bulk_context_new();
    cr_assert_not_null(context);
    cr_expect_eq(getpriority(PRIO_PROCESS, 0), nice);
    void *one = zmq_socket(context, ZMQ_PAIR), *other = zmq_socket(context, ZMQ_PAIR);
    cr_assert_eq(zmq_bind(one, "tcp://127.0.0.1:*"), 0);
    cr_assert_eq(zmq_getsockopt(one, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    cr_assert_eq(zmq_connect(other, endpoint), 0);
    cr_assert_eq(zmq_send(other, "piece", 5, 0), 5);
    cr_expect_eq(zmq_recv(one, text, sizeof text, 0), 5);
    zmq_close(one);
    zmq_close(other);
    bool refused = true;
    cr_expect_eq(urgency_give_way_named("ZMQbg/IO/0", &refused), 1, "its thread has that name");
    cr_expect_not(refused);
    forbidden = true;
    cr_expect_eq(urgency_give_way_named("ZMQbg/IO/0", &refused), 1, "it is there, whatever the sandbox forbids");
    cr_expect(refused);
    zmq_ctx_term(context);
}

Test(bulk_link, port_that_cannot_be_reached_is_not_tried_again_until_the_broker_is_another)
{
    char text[BULK_ENDPOINT_BYTES];
    struct bulk_way way = {0};
    cr_expect_eq(bulk_way_due_us(&way), UINT64_MAX, "there is no connection");
    bulk_way_welcome(&way, 7, 5551, 20000);
    for (int late = 0; late < 2; late++) {
        cr_assert(bulk_way_apart(&way, "tcp://127.0.0.1:5550", text));
        cr_expect_str_eq(text, "tcp://127.0.0.1:5551");
        void *socket = zmq_socket(way.context, ZMQ_DEALER);
        bulk_way_begin(&way, socket, 1000);
        cr_expect_eq(bulk_way_due_us(&way), 11000, "half of the liveness");
        zmq_close(socket);
        cr_expect_eq(bulk_way_end(&way, late ? 11000 : 10999), late == 1);
        cr_expect_eq(bulk_way_due_us(&way), UINT64_MAX);
        bulk_way_welcome(&way, 7, 5551, 20000);
    }
    cr_expect_not(bulk_way_apart(&way, "tcp://127.0.0.1:5550", text));
    bulk_way_welcome(&way, 8, 5551, 20000);
    cr_expect(bulk_way_apart(&way, "tcp://127.0.0.1:5550", text));
    bulk_way_fini(&way);
}

Test(bulk_link, connection_that_came_up_is_never_late, .timeout = 60)
{
    char endpoint[256], text[BULK_ENDPOINT_BYTES];
    size_t bytes = sizeof endpoint;
    struct bulk_way way = {0};
    void *context = zmq_ctx_new(), *router = zmq_socket(context, ZMQ_ROUTER);
    cr_assert_eq(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    cr_assert_eq(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    bulk_way_welcome(&way, 7, (uint32_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10), 20000);
    cr_assert(bulk_way_apart(&way, "tcp://127.0.0.1:5550", text));
    void *socket = zmq_socket(way.context, ZMQ_DEALER);
    bulk_way_begin(&way, socket, 1000);
    cr_assert_eq(zmq_connect(socket, text), 0);
    while (bulk_way_due_us(&way) != UINT64_MAX)
        zmq_poll(&(zmq_pollitem_t){.socket = way.monitor, .events = ZMQ_POLLIN}, 1, 100);
    zmq_close(socket);
    cr_expect_not(bulk_way_end(&way, UINT64_MAX - 1));
    bulk_way_fini(&way);
    zmq_close(router);
    zmq_ctx_term(context);
}

static void *nice_of_one_that_gives_way(void *ret_nice)
{
    urgency_give_way();
    *(int *)ret_nice = getpriority(PRIO_PROCESS, 0);
    return NULL;
}

Test(bulk_link, who_gives_way_does_it_alone)
{
    pthread_t thread;
    int nice = getpriority(PRIO_PROCESS, 0), lower = nice, wanted = nice + URGENCY_NICE > 19 ? 19 : nice + URGENCY_NICE;
    cr_assert_eq(pthread_create(&thread, NULL, nice_of_one_that_gives_way, &lower), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(lower, wanted);
    cr_expect_eq(getpriority(PRIO_PROCESS, 0), nice);
    bool refused = true;
    cr_expect_eq(urgency_give_way_named("no such thread", &refused), 0);
    cr_expect_not(refused);
}
