/* How long HTTP connections may take, with the daemon, the clock and the thread's sleep played: see http_patience.h. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_patience.h"

enum { PLACES = 3, SECOND = 1000000 };

struct guest {
    int ours, theirs; /* -1 = it came after the others */
    void *context;    /* of its socket, as the daemon keeps it */
    struct sockaddr_in address;
};

static struct patience *patience;
static uint64_t now_us = 5 * SECOND;
static sem_t looks, looked;
static bool over;
static struct guest guests[PLACES + 1];

/* ---- what is played -------------------------------------------------------------------------------------------------- */

uint64_t __wrap_clock_now_us(void);
bool __wrap_post_sleep(struct post *post, uint64_t us);
const union MHD_ConnectionInfo *__wrap_MHD_get_connection_info(struct MHD_Connection *connection,
                                                               enum MHD_ConnectionInfoType type, ...);

uint64_t __wrap_clock_now_us(void)
{
    return now_us;
}

/* A look begins when the test asks for one. */
bool __wrap_post_sleep(struct post *post, uint64_t us)
{
    (void)post;
    cr_expect_eq(us, SECOND / 4);
    sem_post(&looked);
    sem_wait(&looks);
    return !over;
}

const union MHD_ConnectionInfo *__wrap_MHD_get_connection_info(struct MHD_Connection *connection,
                                                               enum MHD_ConnectionInfoType type, ...)
{
    static union MHD_ConnectionInfo info;
    struct guest *guest = (struct guest *)(void *)connection;
    if (type == MHD_CONNECTION_INFO_CLIENT_ADDRESS)
        info.client_addr = (struct sockaddr *)&guest->address;
    else if (type == MHD_CONNECTION_INFO_CONNECTION_FD)
        info.connect_fd = guest->ours;
    else
        info.socket_context = guest->context;
    return &info;
}

/* ---- helpers ---------------------------------------------------------------------------------------------------------- */

static struct MHD_Connection *connection(size_t i)
{
    return (struct MHD_Connection *)(void *)&guests[i];
}

static void come(size_t i, const char *address)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    guests[i] = (struct guest){.ours = ends[0], .theirs = ends[1], .address = {.sin_family = AF_INET}};
    cr_assert_eq(inet_pton(AF_INET, address, &guests[i].address.sin_addr), 1);
    patience_notify(patience, connection(i), &guests[i].context, MHD_CONNECTION_NOTIFY_STARTED);
}

static void leave(size_t i)
{
    patience_notify(patience, connection(i), &guests[i].context, MHD_CONNECTION_NOTIFY_CLOSED);
    cr_expect_null(guests[i].context);
    close(guests[i].ours);
    close(guests[i].theirs);
    guests[i].theirs = -1;
}

/* One look of the thread, at that time. */
static void look(uint64_t at_us)
{
    now_us = at_us;
    sem_post(&looks);
    sem_wait(&looked);
}

static bool is_shut(size_t i)
{
    char byte;
    return recv(guests[i].theirs, &byte, 1, MSG_DONTWAIT) == 0;
}

static void expect_shut(const char *which)
{
    char shut[PLACES + 2] = "";
    for (size_t i = 0; i <= PLACES; i++)
        shut[i] = guests[i].theirs > 0 && is_shut(i) ? 'x' : '-';
    cr_expect_str_eq(shut, which);
}

static uint64_t address_of(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    inet_pton(AF_INET, text, &address.sin_addr);
    return patience_address((struct sockaddr *)&address);
}

static void expect_count(const char *address, unsigned held, unsigned same, uint64_t begun)
{
    struct patience_count count = patience_count(patience, address_of(address));
    cr_expect(count.held == held && count.same == same && count.begun == begun, "%u, %u, %u", count.held, count.same,
              (unsigned)count.begun);
}

static void begin(void)
{
    sem_init(&looks, 0, 0);
    sem_init(&looked, 0, 0);
    patience = patience_new(NULL, PLACES);
    cr_assert_not_null(patience);
    sem_wait(&looked);
}

static void end(void)
{
    over = true;
    sem_post(&looks);
    patience_free(patience);
    patience_free(NULL);
}

TestSuite(patience, .init = begin, .fini = end, .timeout = 30);

/* ---- tests ------------------------------------------------------------------------------------------------------------ */

Test(patience, a_request_has_ten_seconds_and_its_answer_sixty)
{
    come(0, "10.0.0.1");
    look(15 * SECOND - 1);
    expect_shut("----");
    patience_answers(patience, connection(0));
    look(75 * SECOND - 2);
    expect_shut("----");
    patience_asks(patience, connection(0), NULL, MHD_REQUEST_TERMINATED_COMPLETED_OK);
    look(85 * SECOND - 3);
    expect_shut("----");
    look(85 * SECOND - 2);
    expect_shut("x---");
}

Test(patience, each_has_its_own_time)
{
    come(0, "10.0.0.1");
    now_us += SECOND;
    come(1, "10.0.0.1");
    come(2, "10.0.0.1");
    patience_answers(patience, connection(2));
    look(15 * SECOND);
    expect_shut("x---");
    look(16 * SECOND);
    expect_shut("xx--");
    look(66 * SECOND);
    expect_shut("xxx-");
}

Test(patience, a_stream_has_all_the_time_there_is)
{
    come(0, "10.0.0.1");
    patience_streams(patience, connection(0));
    look(1000 * (uint64_t)SECOND);
    patience_make_room(patience);
    expect_shut("----");
}

Test(patience, what_has_ended_is_not_shut_and_its_place_is_free)
{
    come(0, "10.0.0.1");
    int ours = dup(guests[0].ours), theirs = dup(guests[0].theirs);
    char byte;
    leave(0);
    look(100 * SECOND);
    cr_expect_eq(recv(theirs, &byte, 1, MSG_DONTWAIT), -1, "another connection may have its descriptor now");
    for (size_t i = 0; i < PLACES; i++)
        come(i, "10.0.0.1");
    expect_count("10.0.0.1", 3, 3, 4);
    leave(1);
    expect_count("10.0.0.1", 2, 2, 4);
    come(1, "10.0.0.2");
    look(110 * SECOND);
    expect_shut("xxx-");
    close(ours);
    close(theirs);
}

Test(patience, one_more_than_there_are_places_is_counted_and_left_alone)
{
    for (size_t i = 0; i <= PLACES; i++)
        come(i, i == 1 ? "10.0.0.2" : "10.0.0.1");
    cr_expect_null(guests[PLACES].context);
    expect_count("10.0.0.1", 3, 2, 4);
    expect_count("10.0.0.2", 3, 1, 4);
    expect_count("10.0.0.3", 3, 0, 4);
    patience_answers(patience, connection(PLACES));
    look(100 * SECOND);
    expect_shut("xxx-");
    leave(PLACES);
    expect_count("10.0.0.1", 3, 2, 4);
}

/* Room is made by the one that has waited longest for its next request; each ends once. */
Test(patience, room_is_made_by_who_asks_nothing)
{
    static const size_t order[] = {1, 2, 0};
    for (size_t i = 0; i < PLACES; i++)
        come(i, "10.0.0.1");
    patience_make_room(patience);
    expect_shut("----");
    for (size_t i = 0; i < PLACES; i++) {
        now_us += SECOND;
        patience_asks(patience, connection(order[i]), NULL, MHD_REQUEST_TERMINATED_COMPLETED_OK);
    }
    patience_make_room(patience);
    expect_shut("-x--");
    patience_answers(patience, connection(2));
    patience_make_room(patience);
    expect_shut("xx--");
    patience_make_room(patience);
    expect_shut("xx--");
    leave(0);
    patience_asks(patience, connection(2), NULL, MHD_REQUEST_TERMINATED_COMPLETED_OK);
    leave(2);
    patience_make_room(patience);
    expect_shut("-x--");
}

Test(patience, an_address_is_its_network)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr other = {.sa_family = AF_UNIX};
    cr_expect_eq(patience_address(NULL), 0);
    cr_expect_eq(patience_address(&other), 0);
    cr_expect_neq(address_of("10.0.0.1"), address_of("10.0.0.2"));
    cr_expect_neq(address_of("10.0.0.1"), address_of("11.0.0.1"));
    inet_pton(AF_INET6, "2001:db8:1:2::5", &six.sin6_addr);
    uint64_t network = patience_address((struct sockaddr *)&six);
    inet_pton(AF_INET6, "2001:db8:1:2::6", &six.sin6_addr);
    cr_expect_eq(patience_address((struct sockaddr *)&six), network, "one host may own all of it");
    inet_pton(AF_INET6, "2001:db8:1:3::5", &six.sin6_addr);
    cr_expect_neq(patience_address((struct sockaddr *)&six), network);
    inet_pton(AF_INET6, "::ffff:10.0.0.1", &six.sin6_addr);
    uint64_t mapped = patience_address((struct sockaddr *)&six);
    inet_pton(AF_INET6, "::ffff:10.0.0.2", &six.sin6_addr);
    cr_expect_neq(patience_address((struct sockaddr *)&six), mapped);
    cr_expect_neq(mapped, 0);
}
