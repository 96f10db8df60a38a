/*
 * door.h - the listening socket of a server, and the connections (guests) that came through it: who is let in, who gets a spare place, who makes room.
 *
 * Who comes when all places are taken, or when too many of its address are there, gets one of a few spare places. When these are taken, too, that guest makes
 * room which may go and has been silent longest. If none may, nobody is let in until one leaves, or until door_listen is called again.
 * Threads: owner - the server's.
 */
#ifndef DOOR_H
#define DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address_table.h"

#define DOOR_SPARES_MAX 64u

/* The first member of a connection. */
struct guest {
    struct guest *previous, *next;
    uint64_t address;  /* what it counts under */
    uint64_t since_us; /* its silence, or its state; the server writes it */
    int fd;
    bool spare; /* all places are taken */
    bool local; /* it is on this host */
};

struct door_rules {
    int fd;                                /* listens, non-blocking; the door's from now on */
    int poller;                            /* epoll(7): is told of the listening socket with `server` as data */
    unsigned connections_max, address_max; /* places; of one address */
    size_t guest_bytes;                    /* of a connection: the door makes it, filled with zeros */
    bool (*begin)(void *server, struct guest *guest); /* it is let in; false: it is closed at once */
    bool (*may_go)(const struct guest *guest);        /* to make room */
    void (*close)(struct guest *guest);               /* calls door_leave */
    void *server;
};

struct door {
    struct door_rules rules;
    bool listening, shut;
    unsigned count, spares;
    uint64_t accepted, turned_away; /* ever; beyond a limit */
    struct guest *first;
    struct guest *left; /* they have left: the server frees them */
    struct address_table addresses;
};

void door_open(struct door *door, const struct door_rules *rules); /* listens */
void door_let_in(struct door *door);                               /* the listening socket has somebody */
void door_leave(struct door *door, struct guest *guest); /* its socket is closed; it goes from `first` to `left` */
void door_listen(struct door *door, bool yes);           /* does nothing once the door is shut */
void door_shut(struct door *door);                       /* nobody comes any more; who is there stays */

#endif
