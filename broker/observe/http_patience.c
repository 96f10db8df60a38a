#include "http_patience.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "deadline.h"

#define REQUEST_US 10000000u
#define ANSWER_US  60000000u /* the longest page over a slow line */
#define LOOK_US    250000u

/* A connection of the daemon; its socket is open until patience_notify has been told of its end. */
struct wait {
    int fd;            /* -1: nobody's */
    uint64_t until_us; /* 0: for as long as it likes */
};

struct patience {
    struct post *post;
    pthread_t thread;
    pthread_mutex_t lock;
    unsigned count;
    struct wait waits[]; /* [count] */
};

static void look(struct patience *patience)
{
    uint64_t now_us = clock_now_us();
    pthread_mutex_lock(&patience->lock);
    for (unsigned i = 0; i < patience->count; i++) {
        struct wait *wait = &patience->waits[i];
        if (wait->fd >= 0 && wait->until_us != 0 && now_us >= wait->until_us) {
            shutdown(wait->fd, SHUT_RDWR);
            wait->until_us = 0;
        }
    }
    pthread_mutex_unlock(&patience->lock);
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
    pthread_mutex_init(&patience->lock, NULL);
    if (pthread_create(&patience->thread, NULL, patience_main, patience) == 0)
        return patience;
    pthread_mutex_destroy(&patience->lock);
    free(patience);
    return NULL;
}

void patience_free(struct patience *patience)
{
    if (!patience)
        return;
    pthread_join(patience->thread, NULL);
    pthread_mutex_destroy(&patience->lock);
    free(patience);
}

static void set(struct patience *patience, struct wait *wait, uint64_t us)
{
    if (!wait)
        return; /* one more than the daemon said it takes */
    pthread_mutex_lock(&patience->lock);
    wait->until_us = us ? clock_now_us() + us : 0;
    pthread_mutex_unlock(&patience->lock);
}

static struct wait *take(struct patience *patience, int fd)
{
    struct wait *taken = NULL;
    pthread_mutex_lock(&patience->lock);
    for (unsigned i = 0; i < patience->count && !taken; i++) {
        if (patience->waits[i].fd < 0) {
            taken = &patience->waits[i];
            *taken = (struct wait){.fd = fd, .until_us = clock_now_us() + REQUEST_US};
        }
    }
    pthread_mutex_unlock(&patience->lock);
    return taken;
}

void patience_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code)
{
    struct patience *patience = context;
    struct wait *wait = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context =
            take(patience, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    } else if (wait) {
        pthread_mutex_lock(&patience->lock);
        wait->fd = -1;
        pthread_mutex_unlock(&patience->lock);
        *socket_context = NULL;
    }
}

static struct wait *wait_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void patience_answers(struct patience *patience, struct MHD_Connection *connection, bool endless)
{
    set(patience, wait_of(connection), endless ? 0 : ANSWER_US);
}

void patience_asks(void *patience, struct MHD_Connection *connection, void **request_context,
                   enum MHD_RequestTerminationCode code)
{
    (void)request_context;
    (void)code;
    set(patience, wait_of(connection), REQUEST_US);
}
