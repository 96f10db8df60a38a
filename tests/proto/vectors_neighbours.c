/* vectors_neighbours.c - messages of version 1.3 between brokers of one pool, and those that send a client to another one. */
#include "control.pb-c.h"
#include "vectors_making.h"
#include "worker.pb-c.h"

#define CLIENT     0x0123456789ABCDEFu
#define TEXT(text) ((char *)(uintptr_t)(text))

static char *elsewhere[] = {TEXT("tcp://10.0.0.2:5550"), TEXT("tcp://10.0.0.3:5550")};

static void make_redirects(void)
{
    Penstock__ClientHello hello = PENSTOCK__CLIENT_HELLO__INIT;
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    Penstock__Resume resume = PENSTOCK__RESUME__INIT;
    hello.uuid = CLIENT;
    hello.follows = 1;
    making_begin("CLIENT_HELLO of one that goes where it is sent");
    making_header(making_example(FRAME_CLIENT_HELLO), &hello.base);
    making_end("client_hello_follows");
    hello.followed = 1;
    making_begin("CLIENT_HELLO of one that was sent here");
    making_header(making_example(FRAME_CLIENT_HELLO), &hello.base);
    making_end("client_hello_followed");
    welcome.redirect = elsewhere;
    welcome.n_redirect = 2;
    making_begin("WELCOME: two other brokers are less busy");
    making_header(making_example(FRAME_WELCOME), &welcome.base);
    making_end("welcome_redirect");
    resume.redirect = elsewhere;
    resume.n_redirect = 1;
    making_begin("RESUME: the jobs are at another broker now");
    making_header(envelope_make(FRAME_RESUME), &resume.base);
    making.vector.canonical = false; /* older ones have no meta, and vector_text.c prints none */
    making_end("resume_redirect");
}

static void make_handed(void)
{
    Penstock__HandedOver handed = PENSTOCK__HANDED_OVER__INIT;
    Penstock__JobMeta meta = making_job();
    struct envelope env = making_example(FRAME_SUBMIT);
    handed.tenant = TEXT("lab");
    handed.name = TEXT("camera");
    handed.grace_us = 1000000;
    handed.key = TEXT("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
    meta.handed = &handed;
    env.flags |= FRAME_FLAG_RESENT;
    making_begin("SUBMIT of one broker to another: a job of its client, which is handed over");
    making_group(env, &meta.base, &making_image, 1);
    making_end("submit_handed");
    env = envelope_make(FRAME_HANDED);
    env.job = (struct job_id){CLIENT, 7};
    making_begin("HANDED: the job is here now");
    making_header(env, NULL);
    making_end("handed");
    env.status = PEN_ERR_BUSY;
    making_begin("HANDED: it is not, the queue is full");
    making_header(env, NULL);
    making_end("handed_busy");
}

void vectors_neighbours_make(void)
{
    Penstock__NeighbourState state = PENSTOCK__NEIGHBOUR_STATE__INIT;
    struct envelope env = envelope_make(FRAME_NEIGHBOUR);
    state.broker = 0xB0B0B0B0B0B0B0B0u;
    state.software = TEXT("penstock 0.1.0");
    state.load = 1250;
    state.busy = 1;
    making_begin("NEIGHBOUR: a broker with a quarter more load than makes it busy");
    making_header(env, &state.base);
    making_end("neighbour");
    state.load = 0;
    state.busy = 0;
    state.draining = 1;
    making_begin("NEIGHBOUR: one that drains");
    making_header(env, &state.base);
    making_end("neighbour_drains");
    env.status = PEN_ERR_DENIED;
    making_begin("NEIGHBOUR with a status: the key of the one that asked lacks the role admin");
    making_header(env, NULL);
    making_end("neighbour_denied");
    make_redirects();
    make_handed();
}
