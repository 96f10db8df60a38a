/* bench_proxy CLIENTS WORKERS - zmq_proxy between two endpoints: the floor a broker is measured against. Prints `listening`. */
#include <stdio.h>

#include <zmq.h>

#include "wire.h"

int main(int argc, char **argv)
{
    const int none = 0;
    if (argc != 3) {
        wire_die("usage: bench_proxy CLIENTS WORKERS");
    }
    void *context = zmq_ctx_new();
    void *clients = zmq_socket(context, ZMQ_ROUTER), *workers = zmq_socket(context, ZMQ_DEALER);
    void *sides[] = {clients, workers};
    for (int i = 0; i < 2; i++) {
        zmq_setsockopt(sides[i], ZMQ_SNDHWM, &none, sizeof none);
        zmq_setsockopt(sides[i], ZMQ_RCVHWM, &none, sizeof none);
        wire_curve(sides[i], 1);
        if (zmq_bind(sides[i], argv[1 + i]) != 0) {
            wire_die("cannot bind %s: %s", argv[1 + i], zmq_strerror(zmq_errno()));
        }
    }
    printf("listening\n");
    fflush(stdout);
    zmq_proxy(clients, workers, NULL); /* ends with the process */
    return 0;
}
