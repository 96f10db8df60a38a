#include "parcel_door.h"

#include "job_id.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool watch(const struct parcel_door *door, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(door->watch, EPOLL_CTL_ADD, fd, &event) == 0;
}

enum pen_status parcel_door_open(struct parcel_door *door, struct pen_error *reterr)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *door = (struct parcel_door){.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                 .watch = epoll_create1(EPOLL_CLOEXEC)};
    int length =
        snprintf(door->name, sizeof door->name, "penstock-%016" PRIx64 "%016" PRIx64, random_u64(), random_u64());
    memcpy(address.sun_path + 1, door->name, (size_t)length);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (door->fd >= 0 && door->watch >= 0 && bind(door->fd, (struct sockaddr *)&address, size) == 0 &&
        listen(door->fd, (int)PARCEL_STRANGERS) == 0 && watch(door, door->fd))
        return PEN_OK;
    pen_error_set(reterr, PEN_ERR_IO, "no socket for sealed memory: %s", strerror(errno));
    parcel_door_close(door);
    return PEN_ERR_IO;
}

void parcel_door_close(struct parcel_door *door)
{
    while (door->count > 0)
        close(door->strangers[--door->count].fd);
    if (door->fd >= 0)
        close(door->fd);
    if (door->watch >= 0)
        close(door->watch);
    door->fd = door->watch = -1;
}

static void stranger_remove(struct parcel_door *door, uint32_t index)
{
    door->count--;
    memmove(&door->strangers[index], &door->strangers[index + 1],
            (door->count - index) * sizeof door->strangers[index]);
}

/* Oldest first. When all places are taken, further ones wait in the kernel's queue. */
static void strangers_come(struct parcel_door *door, uint64_t now_us)
{
    while (door->count < PARCEL_STRANGERS) {
        int fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (!watch(door, fd)) {
            close(fd);
            return;
        }
        door->strangers[door->count++] = (struct parcel_stranger){.fd = fd, .since_us = now_us};
    }
}

/* 1: it has said who it is; 0: it has not said anything; -1: it has gone, or said something else. */
static int ask(int fd, struct parcel_claim *ret_claim)
{
    uint8_t bytes[PARCEL_HELLO_BYTES + 1];
    ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return count > 0 && parcel_claim_read(bytes, (size_t)count, ret_claim) ? 1 : -1;
}

bool parcel_door_next(struct parcel_door *door, uint64_t now_us, struct parcel_claim *ret_claim, int *ret_fd)
{
    strangers_come(door, now_us);
    for (uint32_t i = 0; i < door->count;) {
        int fd = door->strangers[i].fd, said = ask(fd, ret_claim);
        if (said == 0 && now_us - door->strangers[i].since_us < PARCEL_PATIENCE) {
            i++;
            continue;
        }
        stranger_remove(door, i);
        epoll_ctl(door->watch, EPOLL_CTL_DEL, fd, NULL);
        if (said > 0) {
            *ret_fd = fd;
            return true;
        }
        close(fd);
    }
    return false;
}
