#include "door.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "assertion.h"
#include "deadline.h"

#define ACCEPTS_MAX 64 /* in one turn */

void door_listen(struct door *door, bool yes)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = door->rules.server};
    if (door->listening == yes || door->shut)
        return;
    epoll_ctl(door->rules.poller, yes ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, door->rules.fd, &event);
    door->listening = yes;
}

void door_open(struct door *door, const struct door_rules *rules)
{
    *door = (struct door){.rules = *rules, .shut = rules->fd < 0};
    door_listen(door, true);
}

void door_shut(struct door *door)
{
    if (door->shut)
        return;
    door_listen(door, false);
    close(door->rules.fd);
    door->shut = true;
}

void door_leave(struct door *door, struct guest *guest)
{
    PEN_ASSERT(door->count > 0 && door->spares >= guest->spare, "who leaves was counted when it came");
    if (guest->previous)
        guest->previous->next = guest->next;
    else
        door->first = guest->next;
    if (guest->next)
        guest->next->previous = guest->previous;
    address_remove(&door->addresses, guest->address);
    door->count--;
    door->spares -= guest->spare;
    guest->next = door->left;
    door->left = guest;
    door_listen(door, true);
}

/* Who may go and has been silent longest. */
static bool make_room(struct door *door)
{
    struct guest *longest = NULL;
    for (struct guest *at = door->first; at; at = at->next)
        if (door->rules.may_go(at) && (!longest || at->since_us < longest->since_us))
            longest = at;
    if (longest)
        door->rules.close(longest);
    return longest != NULL;
}

static void enter(struct door *door, struct guest *guest)
{
    guest->next = door->first;
    if (door->first)
        door->first->previous = guest;
    door->first = guest;
    door->count++;
    door->spares += guest->spare;
    door->accepted++;
    door->turned_away += guest->spare;
}

static void welcome(struct door *door, int fd, const struct sockaddr_storage *address)
{
    struct guest *guest = calloc(1, door->rules.guest_bytes);
    unsigned same = 0;
    int one = 1;
    if (!guest || !address_add(&door->addresses, address_key(address), &same)) {
        free(guest);
        close(fd);
        return;
    }
    *guest = (struct guest){.address = address_key(address),
                            .since_us = clock_now_us(),
                            .fd = fd,
                            .spare = door->count - door->spares >= door->rules.connections_max ||
                                     same > door->rules.address_max,
                            .local = address_is_local(address)};
    enter(door, guest);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!door->rules.begin(door->rules.server, guest))
        door->rules.close(guest);
}

/* False: nobody else for now. */
static bool take_one(struct door *door)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    int fd = accept4(door->rules.fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        welcome(door, fd, &address);
        return true;
    }
    if (errno == EINTR || errno == ECONNABORTED || ((errno == EMFILE || errno == ENFILE) && make_room(door)))
        return true;
    if (errno != EAGAIN)
        door_listen(door, false); /* until a guest leaves, or the server's next look */
    return false;
}

static bool somebody_waits(const struct door *door)
{
    struct pollfd item = {.fd = door->rules.fd, .events = POLLIN};
    return poll(&item, 1, 0) > 0;
}

void door_let_in(struct door *door)
{
    for (unsigned i = 0; i < ACCEPTS_MAX && !door->shut; i++) {
        bool full = door->spares >= DOOR_SPARES_MAX;
        if (full && !somebody_waits(door))
            return; /* nobody goes for nobody */
        if (full && !make_room(door)) {
            door_listen(door, false);
            return;
        }
        if (!take_one(door))
            return;
    }
}
