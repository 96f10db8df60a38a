/*
 * parcel_door.h - the broker's Unix socket for sealed memory: who connects, until it has said who it is.
 *
 * Its name is random and has no file (an abstract name). Others may read it in /proc; the token that a peer gets in its
 * WELCOME is the secret.
 * Threads: owner.
 */
#ifndef PARCEL_DOOR_H
#define PARCEL_DOOR_H

#include "parcel.h"

#define PARCEL_STRANGERS 32u               /* connections that have not said who they are */
#define PARCEL_PATIENCE  UINT64_C(1000000) /* microseconds that they get for it */

struct parcel_door {
    int fd;    /* -1: closed */
    int watch; /* an epoll of it and of the strangers: readable when parcel_door_next() has something to do */
    char name[PARCEL_NAME_BYTES];
    struct parcel_stranger {
        int fd;
        uint64_t since_us;
    } strangers[PARCEL_STRANGERS];
    uint32_t count;
};

enum pen_status parcel_door_open(struct parcel_door *door, struct pen_error *reterr); /* IO */
void parcel_door_close(struct parcel_door *door);

/* Takes connections in without waiting, and drops those that were silent for too long. True: one has said who it is; its
   descriptor is the caller's. Call it until it is false. */
bool parcel_door_next(struct parcel_door *door, uint64_t now_us, struct parcel_claim *ret_claim, int *ret_fd);

#endif
