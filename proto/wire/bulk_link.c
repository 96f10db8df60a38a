#include "bulk_link.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

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

struct beginning {
    void *(*begin)(void *unused);
};

static void *begin_lowered(void *argument)
{
    const struct beginning *beginning = argument;
    urgency_ask(0);
    urgency_give_way();
    return beginning->begin(NULL);
}

void *bulk_begin(void *(*begin)(void *unused))
{
    struct beginning beginning = {begin};
    pthread_t thread;
    sigset_t all, before;
    void *result = NULL;
    sigfillset(&all); /* other threads of the program handle the signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, begin_lowered, &beginning);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_join(thread, &result);
    return result;
}
