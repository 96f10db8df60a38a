#include "bulk_link.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <zmq.h>

#include "urgency.h"

bool bulk_endpoint(const char *endpoint, uint32_t port, char *ret_text, size_t bytes)
{
    const char *colon = strrchr(endpoint, ':');
    size_t host = colon ? (size_t)(colon - endpoint) : 0;
    if (strncmp(endpoint, "tcp://", 6) != 0 || host <= 6 || port == 0 || port > 65535 || host + sizeof ":65535" > bytes)
        return false;
    snprintf(ret_text, bytes, "%.*s:%" PRIu32, (int)host, endpoint, port);
    return true;
}

/* libzmq's threads start with the first socket and inherit what the thread that opens it has; it has nothing else to do. */
static void *context_begin(void *unused)
{
    (void)unused;
    urgency_ask(0);
    urgency_give_way();
    void *context = zmq_ctx_new();
    void *socket = context ? zmq_socket(context, ZMQ_PAIR) : NULL;
    if (socket) {
        zmq_close(socket);
        return context;
    }
    if (context)
        zmq_ctx_term(context);
    return NULL;
}

void *bulk_context_new(void)
{
    pthread_t thread;
    sigset_t all, before;
    void *context = NULL;
    sigfillset(&all); /* signals are for the threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, context_begin, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_join(thread, &context);
    return context;
}
