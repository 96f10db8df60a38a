/* door.h: places, spare places, who makes room, and a door that is shut. Real sockets on loopback. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "door.h"

#define PLACES 2u
#define ALL    (PLACES + DOOR_SPARES_MAX)

struct hall {
    struct door door;
    struct sockaddr_in at;
    int poller, guests[ALL + 8];
    unsigned come;
    bool refuses, may_go;
};

static bool begin(void *server, struct guest *guest)
{
    struct hall *hall = server;
    guest->since_us = 1000 - hall->door.accepted; /* who came last has been silent longest */
    return !hall->refuses;
}

static struct hall *hall_of; /* of may_go and leave, which get a guest alone */

static bool may_go(const struct guest *guest)
{
    return hall_of->may_go && guest->spare;
}

static void leave(struct guest *guest)
{
    close(guest->fd);
    door_leave(&hall_of->door, guest);
}

static void hall_open(struct hall *hall, unsigned address_max)
{
    socklen_t size = sizeof hall->at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    hall->at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(bind(fd, (struct sockaddr *)(void *)&hall->at, sizeof hall->at), 0);
    cr_assert_eq(listen(fd, 128), 0);
    getsockname(fd, (struct sockaddr *)(void *)&hall->at, &size);
    hall_of = hall;
    hall->poller = epoll_create1(EPOLL_CLOEXEC);
    door_open(&hall->door, &(struct door_rules){.fd = fd,
                                                .poller = hall->poller,
                                                .connections_max = PLACES,
                                                .address_max = address_max,
                                                .guest_bytes = sizeof(struct guest),
                                                .begin = begin,
                                                .may_go = may_go,
                                                .close = leave,
                                                .server = hall});
}

static void come(struct hall *hall, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_eq(connect(fd, (struct sockaddr *)(void *)&hall->at, sizeof hall->at), 0);
        hall->guests[hall->come++] = fd;
    }
    door_let_in(&hall->door);
    door_let_in(&hall->door); /* a turn takes 64 at most */
}

/* Whether epoll tells of who waits outside. */
static bool hears(const struct hall *hall)
{
    struct epoll_event event;
    return epoll_wait(hall->poller, &event, 1, 0) == 1;
}

static void hall_close(struct hall *hall)
{
    struct guest *guest;
    door_shut(&hall->door);
    while (hall->door.first)
        leave(hall->door.first);
    while ((guest = hall->door.left)) {
        hall->door.left = guest->next;
        free(guest);
    }
    for (unsigned i = 0; i < hall->come; i++)
        close(hall->guests[i]);
    close(hall->poller);
    cr_assert(hall->door.count == 0 && hall->door.spares == 0);
}

Test(door, places_then_spare_places_then_nobody_until_one_leaves)
{
    struct hall hall = {.come = 0};
    hall_open(&hall, 1000);
    come(&hall, PLACES);
    cr_assert(hall.door.count == PLACES && hall.door.spares == 0);
    cr_assert(hall.door.first->local && !hall.door.first->spare);
    come(&hall, DOOR_SPARES_MAX);
    cr_assert(hall.door.count == ALL && hall.door.spares == DOOR_SPARES_MAX &&
              hall.door.turned_away == DOOR_SPARES_MAX);
    come(&hall, 1);
    cr_assert(hall.door.count == ALL && !hears(&hall), "who comes now waits outside, and costs no turns");
    leave(hall.door.first);
    cr_assert(hears(&hall));
    door_let_in(&hall.door);
    cr_assert(hall.door.count == ALL && hall.door.accepted == ALL + 1);
    hall_close(&hall);
}

Test(door, who_may_go_and_was_silent_longest_makes_room)
{
    struct hall hall = {.come = 0, .may_go = true};
    hall_open(&hall, 1000);
    come(&hall, ALL);
    const struct guest *longest = hall.door.first;
    come(&hall, 1);
    cr_assert(hall.door.count == ALL && hall.door.left == longest);
    hall_close(&hall);
}

Test(door, one_address_has_its_own_limit)
{
    struct hall hall = {.come = 0};
    hall_open(&hall, 1);
    come(&hall, 2);
    cr_assert(hall.door.spares == 1 && hall.door.first->spare && !hall.door.first->next->spare);
    hall_close(&hall);
}

Test(door, who_is_refused_at_the_beginning_leaves_nothing)
{
    struct hall hall = {.come = 0, .refuses = true};
    hall_open(&hall, 1000);
    come(&hall, 3);
    cr_assert(hall.door.count == 0 && hall.door.accepted == 3 && !hall.door.first);
    hall_close(&hall);
}

Test(door, a_door_that_is_shut_stays_shut)
{
    struct hall hall = {.come = 0};
    hall_open(&hall, 1000);
    come(&hall, 1);
    door_shut(&hall.door);
    door_shut(&hall.door);
    leave(hall.door.first);
    door_listen(&hall.door, true);
    door_let_in(&hall.door);
    cr_assert(!hall.door.listening && hall.door.count == 0);
    hall_close(&hall);
}
