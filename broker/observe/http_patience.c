#include "http_patience.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "assertion.h"
#include "deadline.h"
#include "mutex.h"

#define REQUEST_US 10000000u
#define ANSWER_US  60000000u /* long enough for the longest page over a slow line */
#define LOOK_US    250000u

/* A connection of the daemon; its socket is open until patience_notify reports its end. */
struct wait {
    int fd;            /* -1: free place */
    bool idle;         /* between two requests */
    uint64_t until_us; /* 0: no limit */
    uint64_t address;  /* a digest */
};

struct patience {
    struct post *post;
    pthread_t thread;
    pthread_mutex_t lock;
    uint64_t begun; /* connections, ever */
    unsigned count;
    struct wait waits[]; /* [count] */
};

static void look(struct patience *patience)
{
    uint64_t now_us = clock_now_us();
    mutex_take(&patience->lock);
    for (unsigned i = 0; i < patience->count; i++) {
        struct wait *wait = &patience->waits[i];
        if (wait->fd >= 0 && wait->until_us != 0 && now_us >= wait->until_us) {
            shutdown(wait->fd, SHUT_RDWR);
            wait->until_us = 0;
        }
    }
    mutex_give(&patience->lock);
}

static void *patience_main(void *context)
{
    struct patience *patience = context;
    while (post_sleep(patience->post, LOOK_US))
        look(patience);
    return NULL;
}

struct patience *patience_new(struct post *post, unsigned connections_max)
{
    struct patience *patience = calloc(1, sizeof *patience + connections_max * sizeof patience->waits[0]);
    if (!patience)
        return NULL;
    patience->post = post;
    patience->count = connections_max;
    for (unsigned i = 0; i < connections_max; i++)
        patience->waits[i].fd = -1;
    mutex_init(&patience->lock);
    if (pthread_create(&patience->thread, NULL, patience_main, patience) == 0)
        return patience;
    mutex_fini(&patience->lock);
    free(patience);
    return NULL;
}

void patience_free(struct patience *patience)
{
    if (!patience)
        return;
    pthread_join(patience->thread, NULL);
    mutex_fini(&patience->lock);
    free(patience);
}

static void set(struct patience *patience, struct wait *wait, bool idle, uint64_t us)
{
    if (!wait)
        return; /* one more than the daemon said it takes */
    mutex_take(&patience->lock);
    wait->idle = idle;
    wait->until_us = us ? clock_now_us() + us : 0;
    mutex_give(&patience->lock);
}

static struct wait *take(struct patience *patience, int fd, uint64_t address)
{
    struct wait *taken = NULL;
    mutex_take(&patience->lock);
    patience->begun++;
    for (unsigned i = 0; i < patience->count && !taken; i++) {
        if (patience->waits[i].fd < 0) {
            taken = &patience->waits[i];
            PEN_ASSERT(fd >= 0, "a connection that begins has a socket");
            *taken = (struct wait){.fd = fd, .address = address, .until_us = clock_now_us() + REQUEST_US};
        }
    }
    mutex_give(&patience->lock);
    return taken;
}

void patience_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code)
{
    struct patience *patience = context;
    struct wait *wait = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const struct sockaddr *address =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
        *socket_context =
            take(patience, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
                 patience_address(address));
    } else if (wait) {
        mutex_take(&patience->lock);
        PEN_ASSERT(wait->fd >= 0, "a connection ends once");
        wait->fd = -1;
        mutex_give(&patience->lock);
        *socket_context = NULL;
    }
}

/* For IPv6 the network part, because one host may own all addresses of its network; an address mapped from IPv4 is
   used whole. */
uint64_t patience_address(const struct sockaddr *address)
{
    uint64_t halves[2] = {0, 0};
    if (address && address->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    if (address && address->sa_family == AF_INET6)
        memcpy(halves, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof halves);
    return halves[0] ? halves[0] : halves[1];
}

struct patience_count patience_count(struct patience *patience, uint64_t address)
{
    struct patience_count count = {.held = 0};
    mutex_take(&patience->lock);
    count.begun = patience->begun;
    for (unsigned i = 0; i < patience->count; i++) {
        count.held += patience->waits[i].fd >= 0;
        count.same += patience->waits[i].fd >= 0 && patience->waits[i].address == address;
    }
    mutex_give(&patience->lock);
    return count;
}

void patience_make_room(struct patience *patience)
{
    struct wait *longest = NULL;
    mutex_take(&patience->lock);
    for (unsigned i = 0; i < patience->count; i++) {
        struct wait *wait = &patience->waits[i];
        if (wait->fd >= 0 && wait->idle && wait->until_us != 0 && (!longest || wait->until_us < longest->until_us))
            longest = wait;
    }
    if (longest) {
        shutdown(longest->fd, SHUT_RDWR);
        longest->until_us = 0;
    }
    mutex_give(&patience->lock);
}

static struct wait *wait_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void patience_answers(struct patience *patience, struct MHD_Connection *connection)
{
    set(patience, wait_of(connection), false, ANSWER_US);
}

void patience_streams(struct patience *patience, struct MHD_Connection *connection)
{
    set(patience, wait_of(connection), false, 0);
}

void patience_asks(void *patience, struct MHD_Connection *connection, void **request_context,
                   enum MHD_RequestTerminationCode code)
{
    (void)request_context;
    (void)code;
    set(patience, wait_of(connection), true, REQUEST_US);
}
