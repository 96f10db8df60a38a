/*
 * sim.h - a whole pool in one thread: the broker's real logic between virtual sockets, with a clock and a world that one seed decides. Some worlds
 * have two brokers, some ensembles, some detached jobs in a journal, some keys and quotas, some little memory: drawn apart, so that the rest of a seed's
 * course does not depend on it.
 *
 * The world: clients and workers that behave as proto/PROTOCOL.md says, and whatever may befall them - killed, frozen, cut off, slow, restarted.
 * Every step does one drawn thing; after every step check.c looks at the broker's whole state. At the end all is healed, and every job that
 * somebody still waits for must have had its answer. A seed replays its schedule exactly.
 * Threads: owner.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker.h"
#include "wire.h"

#define SIM_CLIENTS     3u
#define SIM_WORKERS     4u
#define SIM_DETACHED    12u
#define SIM_SIDES       2u  /* brokers */
#define SIM_JOBS        24u /* of one client */
#define SIM_HELD        256u
#define SIM_GROUPS      64u
#define SIM_REPORT_TEXT 256u
#define SIM_HEAD        512u
#define SIM_META_ADDED  8u /* bytes that a broker adds to a meta here: version and tenant */

/* ---- the network: net.c ---- */

/* What else the meta of a job says. */
struct sim_said {
    uint64_t after;   /* of jobs of sequences: the job that each follows; 0 = none */
    uint64_t version; /* of its model */
};

/* A message on its way. To the broker: one header frame, and a raw frame when raw_bytes. From it: what its groups say. */
struct packet {
    struct packet *next;
    uint32_t count; /* groups */
    size_t bytes, raw_bytes;
    uint32_t totals[SIM_GROUPS]; /* of the payloads that groups announce */
    struct envelope envs[SIM_GROUPS];
    uint8_t values
        [SIM_GROUPS]; /* the first byte of a job's input or of a result's output, or of a CHUNK; up: every byte of the raw frame */
    uint8_t raws[SIM_GROUPS]; /* raw frames that have come */
    uint8_t head
        [SIM_HEAD]; /* the header frame as it came, of messages that a neighbour reads, or that send a client elsewhere */
    size_t head_bytes;
    struct sim_said said[SIM_GROUPS];
    uint8_t data[];
};

struct channel { /* one direction, in order */
    struct packet *first, *last;
    uint32_t count;
};

enum conn_state {
    CONN_OPEN,
    CONN_CUT,  /* nothing gets through, and nobody is told */
    CONN_GONE, /* sends fail; what had arrived before is still read */
};

struct conn {
    struct conn *next;
    uint32_t peer, trace; /* life: of the broker at its other end */
    enum conn_state state;
    uint8_t key; /* enum sim_key: whose it is */
    bool hint;   /* the monitor has yet to tell of its end */
    bool found;  /* the broker has found it to be gone: what had arrived is read before the broker's time goes on */
    struct channel up, down;
};

struct sim_side;
struct virtual_port {
    struct port port; /* first: the broker's callbacks lead back here */
    struct sim *sim;
    struct sim_side *side;
    struct conn *conns;
    struct conn *to; /* of the message that is being sent */
    struct packet *building;
    uint32_t frames_left;
};

/* ---- who lives in it ---- */

/* What a job is to the detached store. */
enum sim_role { ROLE_PLAIN, ROLE_DETACHED, ROLE_FETCH };

struct sim_job {
    uint64_t sequence;
    uint8_t fill;         /* each byte of its input */
    uint8_t answer;       /* the right one */
    uint8_t claim, other; /* the input that its digest is of, and what that makes right as well: steps.c */
    uint8_t chain;        /* number of its sequence of jobs, from 1; 0 = none */
    uint8_t role, wanted; /* enum sim_role; wanted: number of the detached job that is submitted or fetched */
    uint8_t steps;        /* which ensemble or part of one, from 1; 0 = none: steps.c */
    uint8_t version;      /* that it asks for; 0 = any */
    bool first, last;
    bool ended_by_order; /* somebody asked for its end, if it came in time */
    double error_max;    /* that it allows; 0 = says nothing: contracts.c */
    bool exact;
    uint32_t sends, results;
    uint32_t offers;     /* a draining broker offered it to its neighbour so often: each may be answered as well */
    uint64_t job_traces; /* of brokers that it was sent to: a bit for each */
    uint64_t asked_us;   /* it was made then, in the time of the broker with this number */
    uint32_t asked_of;
    bool cancelled;
    enum pen_status status;
};

#define SIM_CHAINS 2u  /* of a client, at a time */
#define SIM_STATES 64u /* on a worker */
#define SIM_PARTS  5u  /* models of ensembles and ensembles */

struct sim_chain {
    bool open;
    uint8_t length;
};

/* What a worker keeps of a sequence: how many of its jobs it has run. */
struct sim_state {
    uint64_t client, id, first, last; /* first: the job that began it; last: that left it as it is */
    uint8_t runs;
    bool ending; /* dropped as soon as its job is done */
};

/* A sequence of which a worker has had jobs: of one broker, that with this life, or of several. */
struct sim_touch {
    uint64_t client, id;
    uint32_t trace;
    bool several;
};

/* A job that a worker holds. */
struct sim_held {
    struct job_id id;
    struct digest digest;
    uint64_t chain, model; /* model: as its envelope names it */
    struct sim_said said;
    uint8_t value;           /* of its input */
    bool first, last, alone; /* alone: it must run so */
    uint32_t order;          /* of arrival at its worker, over all brokers */
};

/* The bulk connection of a peer, and what moves over it. */
struct sim_run;
struct sim_bulk {
    struct conn *conn; /* NULL: not needed yet */
    uint8_t key;       /* enum sim_key */
    struct sim_run *ups, *downs;
    uint32_t numbers;
};

struct sim_client {
    struct sim_bulk bulk;
    uint64_t uuid;
    struct sim_chain chains[SIM_CHAINS];
    struct sim_side *side; /* whose broker it uses now */
    struct conn *conn;     /* NULL: not connected */
    bool ready, leaving;   /* welcomed; told that the broker drains */
    uint32_t followed;     /* redirects in a row */
    struct sim_job jobs[SIM_JOBS];
    uint32_t jobs_count;
    uint64_t acked;
};

/* A worker and one of the brokers. */
struct sim_worker;
struct sim_link {
    struct sim_worker *worker;
    struct sim_side *side;
    struct sim_bulk bulk;
    struct conn *conn;
    bool ready;
    uint32_t hellos, pings, pongs; /* pings and pongs of this connection */
    uint32_t asked, asked_hellos;  /* the PONG that is awaited, of which connection; 0 = none */
    uint32_t held_count;
    struct sim_held *held; /* SIM_HELD */
};

/* suspects.c */
enum sim_stage { STAGE_NONE, STAGE_DRAINING, STAGE_TELLING, STAGE_RUNNING, STAGE_OVER };

struct sim_worker {
    uint64_t uuid;
    char name[16];
    bool frozen, draining, runs_alone;
    uint32_t slots, kind, parts; /* which models it offers; parts: steps.c */
    uint32_t level;              /* what was measured of them: contracts.c */
    uint32_t cold;               /* those of them that are not in memory, bits: models.c */
    uint32_t states_count, touches_count, orders, one_order;
    enum sim_stage stage;
    struct job_id one; /* that runs alone */
    uint64_t told_us;
    struct sim_link links[SIM_SIDES];
    struct sim_held held[SIM_SIDES][SIM_HELD]; /* from here on only what the counts say is good */
    struct sim_state states[SIM_STATES];
    struct sim_touch touches[SIM_STATES];
};

/* A job that was submitted to be kept. */
struct sim_detached {
    struct job_id id;
    uint64_t ttl_us;
    uint64_t begun_us, heard_us; /* it was sent first, and heard to be accepted */
    uint64_t expires_us;         /* from then on it may be gone; UINT64_MAX: nobody has heard of its acceptance yet */
    uint8_t answer, other;
    bool accepted, cancelled;
    uint8_t status; /* as told, by the broker with that number: 0 = not told */
    uint32_t told_by;
};

struct sim_counts {
    uint64_t schedules, steps, jobs, answers, restarts, kills, cuts, freezes, adopted, requeued, coalesced, hits,
        lookups, expired, cancelled, duplicates, drained, hedged, hedges_won, quarantined, refused, dropped,
        fair_checks, fair_settled, chained, chains_broken, updates, announced, chunks, wholes, spread, steps_sent,
        twice, failovers, solo_batches, outages, innocent_lost, detached, accepted, fetched, power_cuts, taken, keyed,
        over_rate, over_bytes, over_share, denied, strangers, scarce, memory_moves, over_memory, over_queue, over_peer,
        chains_twice, chains_elsewhere, chains_overtaken, versioned, orders, keys_changed, left_for_next_turn,
        contracts, contracts_kept, contracts_refused, handed, taken_over, redirected, handover_kills;
    uint64_t effects[EFFECT_COUNT];
};

/* What check.c saw of the kept replies when it last looked at each of them. */
struct kept_seen {
    const struct broker *broker;
    uint64_t count, bytes, unsent, sessions;
};

/* What this world has, beside what is always there. */
struct sim_extras {
    bool chains, bulk, steps, twice, detached;
    bool shared;         /* detached jobs are in Redis, all brokers' */
    bool gentle;         /* nothing but poisonous jobs ends workers, and all of these run suspects alone */
    bool keys;           /* who comes has a key with roles and quotas: quotas.c */
    bool watcher;        /* the last client's key may only look */
    bool scarce;         /* memory of brokers and workers is short: scarce.c */
    bool versions, cold; /* of models there are two, some of them not in memory: models.c */
    bool orders;         /* of administrators: orders.c */
    bool contracts;      /* jobs state what their numbers keep: contracts.c */
    bool handover;       /* the two brokers know each other: handover.c */
    bool late;           /* it is known how long jobs take, and late ones get a hedge */
};

/* quotas.c */
enum sim_key { SIM_KEY_RED, SIM_KEY_BLUE, SIM_KEY_WATCH, SIM_KEY_STAFF, SIM_KEYS };

struct sim_quota {
    double rate;
    uint64_t bytes;
    uint32_t share;
};

/* A broker's own connection to the other one. */
struct sim_dealer {
    struct sim *sim;
    struct sim_side *to;
    struct conn *conn; /* NULL: none */
    uint32_t allowed;  /* messages that it may read now */
};

/* A broker, and what leads to it. */
struct sim_side {
    struct broker broker;
    struct headroom headroom; /* where memory is scarce */
    struct cache *cache;
    struct virtual_port clients_port, workers_port;
    struct kept_seen kept_seen;
    struct sim_dealer dealer;
    uint32_t number, trace; /* life: number of this broker, over all that the world has had */
    bool up;
};

struct sim {
    struct sim_extras has;
    uint64_t seed, state; /* of the generator */
    uint64_t worlds; /* of the one that decides what the world has: the other draws of a seed stay what they were */
    uint64_t clock_us;
    struct options options;
    struct sim_side sides[SIM_SIDES], *side; /* side: whose turn it is */
    uint32_t sides_count;
    struct sim_detached detached[SIM_DETACHED];
    uint32_t detached_count;
    struct journal *journal;
    struct sim_quota quotas[SIM_KEYS];
    uint64_t worker_bytes;       /* that a worker may have outstanding, as it says; 0 = it does not say */
    uint32_t next_peer, brokers; /* given; that have begun */
    uint64_t next_uuid;
    struct sim_client clients[SIM_CLIENTS];
    struct sim_worker workers[SIM_WORKERS];
    uint64_t retired[64]; /* sessions that ended: nobody waits for their jobs */
    uint32_t retired_count;
    uint32_t step;
    bool trace;
    bool alone;     /* handover.c decides what the world has */
    uint64_t trail; /* digest of all that was sent and done: equal for equal seeds */
    struct sim_counts counts;
    uint64_t checks;               /* of the whole state */
    char failure[SIM_REPORT_TEXT]; /* "" = none */
};

uint32_t sim_draw(struct sim *sim, uint32_t below); /* 0 when below is 0 */
bool sim_chance(struct sim *sim, uint32_t percent);
bool sim_world(struct sim *sim, uint32_t percent);                        /* a chance drawn apart */
uint32_t sim_world_draw(struct sim *sim, uint32_t below);                 /* the same of numbers */
void sim_note(struct sim *sim, const char *what, uint64_t a, uint64_t b); /* into the trail, and printed when tracing */
__attribute__((format(printf, 2, 3))) void sim_fail(struct sim *sim, const char *format, ...);

/* ---- net.c ---- */
void net_init(struct sim *sim);
void net_fini(struct sim *sim);
struct conn *net_connect(struct sim *sim, struct virtual_port *port);
/* The peer's end goes: sends fail from now on; of what it had sent a drawn part is still read. */
void net_close(struct sim *sim, struct virtual_port *port, struct conn *conn);
void net_cut(struct conn *conn);
void net_say(struct sim *sim, struct conn *conn, struct envelope env, const void *meta, size_t bytes);
/* The same with a raw frame, each byte of which is `value`; without bytes there is none. */
void net_say_raw(struct sim *sim, struct conn *conn, struct envelope env, const void *meta, size_t bytes,
                 size_t raw_bytes, uint8_t value);
/* A CHUNK of so many bytes, each of which is `value`. */
void net_say_chunk(struct sim *sim, struct conn *conn, struct envelope env, size_t bytes, uint8_t value);
/* The same for several groups without raw frames, their header frames one behind the other; net_header writes one. */
void net_say_groups(struct sim *sim, struct conn *conn, const uint8_t *headers, size_t bytes);
size_t net_header(uint8_t *to, struct envelope env, const void *meta, size_t bytes);
/* A message of a broker to the other one: raw frames are of one byte's value, as everywhere here. */
void net_say_frames(struct sim *sim, struct conn *conn, zmq_msg_t *frames, size_t count);
/* Hands the broker the next message of a drawn connection; false = none is on its way. */
bool net_deliver_up(struct sim *sim, struct virtual_port *port);
struct packet *net_take_down(struct conn *conn); /* NULL = none; free(3) it */
bool net_tell_end(struct sim *sim, struct virtual_port *port);
/* A turn of broker/loop.c: what had arrived over connections that were found to be gone is read. */
void net_read_out(struct sim *sim, struct virtual_port *port);
void net_broker_gone(struct sim_side *side); /* every connection ends */

/* ---- redis.c: what the broker believes to be Redis ---- */
void redis_forget(void);
uint32_t redis_asked(void);          /* questions without an answer */
void redis_answer(struct sim *sim);  /* one of them, hit or miss as it is, in any order */
void redis_deliver(struct sim *sim); /* to the side whose turn it is */

/* ---- peers.c ---- */
uint8_t sim_fill(struct job_id id); /* the input of that job, and its right answer */
void client_begin(struct sim *sim, struct sim_client *client);
void client_connect(struct sim *sim, struct sim_client *client);
void sim_client_submit(struct sim *sim, struct sim_client *client);
void client_cancel(struct sim *sim, struct sim_client *client);
void client_acknowledge(struct sim *sim, struct sim_client *client);
void client_ping(struct sim *sim, struct sim_client *client);
void client_goodbye(struct sim *sim, struct sim_client *client);
void client_goodbye_for_now(struct sim *sim, struct sim_client *client); /* to a broker that drains */
void client_elsewhere(struct sim *sim, struct sim_client *client);       /* to the other broker */
void client_elsewhere_after(struct sim *sim, struct sim_client *client, uint32_t followed); /* redirects in a row */
void client_vanish(struct sim *sim, struct sim_client *client); /* killed: its jobs are nobody's */
bool client_read(struct sim *sim, struct sim_client *client);
const char *client_model(const struct sim_client *client, const struct sim_job *job);   /* that a plain job asks for */
const char *client_backend(const struct sim_client *client, const struct sim_job *job); /* the same; NULL = any */
uint32_t client_unanswered(const struct sim_client *client);

/* ---- staff.c ---- */
void worker_begin(struct sim *sim, struct sim_worker *worker);
void worker_connect(struct sim *sim, struct sim_link *link);
void worker_answer(struct sim *sim, struct sim_link *link, uint32_t most, bool honest);
void worker_change(struct sim *sim, struct sim_worker *worker); /* models are loaded or unloaded */
void worker_tell(struct sim *sim, struct sim_worker *worker);   /* what it offers now */
void worker_kill(struct sim *sim, struct sim_worker *worker);
void worker_say_drain(struct sim *sim, struct sim_worker *worker);
void worker_goodbye(struct sim *sim, struct sim_worker *worker);
bool worker_read(struct sim *sim, struct sim_link *link);
void worker_beat(struct sim *sim, struct sim_link *link);
void worker_say(struct sim *sim, struct sim_link *link, enum frame_type type, struct job_id id);
void worker_lie(struct sim *sim, struct sim_link *link); /* a result of a job that it never had */
uint32_t worker_holds_jobs(const struct sim_worker *worker);

/* ---- detached.c: jobs that a journal keeps, whose file forgets what was not synced when the power is cut, or Redis ---- */
void detached_begin(struct sim *sim, uint64_t (*clock)(void)); /* a new world's file, or Redis, is empty */
void detached_end(struct sim *sim);
void detached_broker_up(struct sim *sim); /* it reads what its predecessor had synced */
void sim_detached_submit(struct sim *sim, const struct sim_client *client,
                         struct sim_job *job); /* makes the job one, or a fetch */
/* Its message; returns the meta's bytes, as wire_job. */
size_t detached_job(const struct sim *sim, const struct sim_job *job, struct wire_job *wire, struct envelope *env,
                    uint8_t *meta, size_t *ret_raw_bytes);
void detached_answered(struct sim *sim, struct sim_job *job, uint8_t value);
void detached_some(struct sim *sim);            /* the disk works, is full, fails; a job is cancelled */
void detached_work(struct sim *sim, bool well); /* what was written is synced; well: and nothing fails any more */
void detached_check(struct sim *sim);           /* what was accepted is there */
bool sim_detached_open(const struct sim *sim);  /* something accepted has not ended */
void detached_check_end(struct sim *sim);       /* and done */

/* ---- suspects.c: jobs that must run alone, as worker/brokers/exclusive.c has it ---- */
bool suspects_poisonous(const struct sim *sim, const struct sim_held *held); /* ends whoever runs it */
bool suspects_may_run(const struct sim_worker *worker, const struct sim_held *held);
void suspects_turn(struct sim *sim, struct sim_worker *worker); /* goes on as far as can be */
void suspects_fill(const struct sim_link *link, Penstock__Heartbeat *beat, Penstock__RunningJob *room);
void suspects_given(struct sim *sim, struct sim_link *link); /* work came over that link */
void suspects_check(struct sim *sim);                        /* nobody innocent is in quarantine */

/* ---- chunks.c ---- */
/* The peer's ordinary connection is replaced: all transfers end, and so does the bulk connection. */
void chunks_reset(struct sim *sim, struct virtual_port *port, struct sim_bulk *bulk);
/* True: the payload is to be announced by `env`, which has its number now, and its bytes follow when they are asked for. */
bool chunks_announce(struct sim *sim, struct virtual_port *port, struct sim_bulk *bulk, uint64_t uuid,
                     struct envelope *env, size_t bytes, uint8_t value);
void chunks_credit(struct sim *sim, struct sim_bulk *bulk, const struct envelope *env); /* CREDIT came */
/* A payload was announced over `conn`: gives credit for some of it. */
void chunks_expect(struct sim *sim, struct virtual_port *port, struct conn *conn, struct sim_bulk *bulk, uint64_t uuid,
                   const struct envelope *env, uint64_t total, struct sim_said said);
/* It is not wanted any more; false: none of that job is coming. */
bool chunks_refuse(struct sim *sim, struct conn *conn, struct sim_bulk *bulk, struct job_id job);

enum chunk_news {
    CHUNK_NONE,
    CHUNK_SOME,
    CHUNK_DONE, /* *ret_env is the announcement of a payload that is complete, *ret_value its first byte, *ret_said as announced */
    CHUNK_RESUME, /* the broker asks for a new beginning */
};
enum chunk_news chunks_read(struct sim *sim, struct conn *conn, struct sim_bulk *bulk, struct envelope *ret_env,
                            uint8_t *ret_value, struct sim_said *ret_said);

/* ---- steps.c: ensembles, run whole by one worker or spread over several; each model's answer is a function of its input ---- */
void steps_begin(struct sim *sim, struct sim_worker *worker); /* which parts it has */
void steps_mend(struct sim_worker *worker, uint32_t index);   /* all parts are somewhere: that worker's */
size_t steps_offers(const struct sim_worker *worker, struct wire_model *ret_models); /* at most SIM_PARTS */
void steps_submit(struct sim *sim, struct sim_job *job);                             /* makes the job one of them */
/* What the job asks for, from its sequence; the envelope has the digest. */
struct envelope steps_job(const struct sim_client *client, const struct sim_job *job, struct wire_job *wire);
/* If its model is one of them: the value becomes the answer, the digest that of the input. */
bool steps_run(struct sim_held *held);
void steps_broker_up(struct sim *sim);
uint64_t steps_spread(const struct sim *sim); /* ensembles that this broker has ever run in steps */
uint32_t steps_wholes(const struct sim *sim); /* under way */
/* A job in JOB_STEPS and its run agree. Gives the bytes that are kept for it and adds to *steps those under way. */
uint64_t steps_check_whole(struct sim *sim, const struct job *job, uint32_t *steps);
void steps_check_step(struct sim *sim, const struct job *job);
void steps_check_lane(struct sim *sim, const struct lane *lane); /* nothing waits that could begin */

/* ---- chain.c: jobs of sequences, whose right answer is 100 + how many came before it ---- */
/* Makes the job one of a sequence. */
void chain_submit(struct sim *sim, struct sim_client *client, struct sim_job *job);
/* A client's job of a sequence did not end well: it begins the next one anew. */
void chain_broken(struct sim *sim, struct sim_client *client, const struct sim_job *job);
/* Number of the job before it in its sequence, or in the one that had its name before; 0 = none. */
uint64_t chain_before(const struct sim_client *client, const struct sim_job *job);
void chain_some(struct sim *sim); /* where there are two brokers: a client goes to the other one */
/* A job of a sequence goes to the broker at the other end of `conn`. */
void chain_sent(const struct conn *conn, struct sim_job *job);
/* It is answered by that one: with its result only if that broker has seen the sequence begin. */
void chain_answered(struct sim *sim, const struct sim_client *client, const struct sim_job *job);
/* The worker is given the job: the state that it needs must be here, unless another broker has had to do with it, or one before a restart. */
void chain_taken(struct sim *sim, struct sim_link *link, const struct sim_held *held);
/* It has run, and *ret_value is the right answer: the state moves on. NOT_FOUND: it was dropped meanwhile, or begun anew. */
enum pen_status chain_run(struct sim *sim, struct sim_worker *worker, const struct sim_held *held, uint8_t *ret_value);
/* A job of it failed here: one of before the sequence was begun anew ends nothing. */
void chain_failed(struct sim_worker *worker, const struct sim_held *held);
/* The broker says that the sequence is over; a job of it that has begun goes on with its state. */
void chain_over(struct sim *sim, struct sim_link *link, struct job_id job, uint64_t chain);

/* ---- models.c: versions, and models that are not in memory ---- */
void models_draw(struct sim *sim);
void models_begin(struct sim *sim, struct sim_worker *worker);
void models_offers(const struct sim *sim, const struct sim_worker *worker, struct wire_model *models, size_t count);
bool models_change(struct sim *sim, struct sim_worker *worker); /* false: nothing of this kind */
void models_warm(struct sim *sim, struct sim_worker *worker);   /* it is asked to load one */
bool models_mend(struct sim_worker *worker); /* all of the older version, in memory; false: they were */
void models_submit(struct sim *sim, struct sim_job *job, const char *model); /* which version, and its right answers */
uint8_t models_run(const struct sim_held *held, uint8_t value);              /* the version's answer */
/* Adds to its ResultMeta of `bytes` with which content it ran, where a result may be kept; returns the bytes. */
size_t models_sign(const struct sim_held *held, uint8_t *meta, size_t bytes);

/* ---- contracts.c: what jobs state of their numbers, and what was measured of workers ---- */
void contracts_draw(struct sim *sim);
void contracts_begin(struct sim *sim, struct sim_worker *worker);
void contracts_offers(const struct sim *sim, const struct sim_worker *worker, struct wire_model *models, size_t count);
bool contracts_change(struct sim *sim, struct sim_worker *worker); /* false: nothing of this kind */
bool contracts_mend(struct sim_worker *worker);                    /* exact, all of them; false: they were */
void contracts_submit(struct sim *sim, struct sim_job *job);
void contracts_fill(const struct sim_job *job, struct wire_job *wire);
/* The broker gives a worker that job, for that version of its model: the worker must keep what it states. */
void contracts_given(struct sim *sim, const struct sim_side *side, uint32_t peer, const struct envelope *env,
                     uint64_t version);
/* It answers that: a job may be refused for what it states only where nobody keeps it. */
void contracts_refused(struct sim *sim, const struct sim_side *side, const struct envelope *env);

/* ---- handover.c ---- */
void handover_draw(struct sim *sim);
void handover_draw_alone(struct sim *sim, const struct options *options);
void handover_side_up(struct sim *sim, struct sim_side *side);
void handover_side_down(struct sim *sim, struct sim_side *side);
void handover_read(struct sim *sim, struct sim_side *side); /* some of what the other broker has answered */
/* Jobs on the list of those that were offered; UINT32_MAX: it does not keep what it counts. */
uint32_t handover_check(const struct neighbours *neighbours);
bool handover_follow(struct sim *sim, struct sim_client *client, const struct packet *packet);
/* Kills either broker behind each message of a hand-over, each time in a new world. */
bool handover_prove(struct sim *sim, const struct options *options, uint64_t seed);

/* ---- orders.c ---- */
void orders_some(struct sim *sim);

/* ---- quotas.c: keys, roles and quotas of clients ---- */
void quotas_draw(struct sim *sim);
void quotas_side_up(struct sim *sim);
void quotas_some(struct sim *sim);                                            /* a key is taken away or given back */
void quotas_heal(struct sim *sim);                                            /* all are there */
enum sim_key quotas_key_of(struct sim *sim, const struct sim_client *client); /* at times a wrong one */
enum sim_key quotas_key_of_worker(struct sim *sim);
const char *quotas_user(const struct sim *sim,
                        const struct conn *conn); /* as the authenticator tells the broker; NULL */
/* True: it came with a wrong key, was told so, and is to come again. Whoever else is not welcomed is a failure. */
bool quotas_turned_away(struct sim *sim, const struct conn *conn, const char *who, enum pen_status status);
void quotas_answered(struct sim *sim, const struct sim_client *client, enum pen_status status);
/* The broker refuses a job with that sentence and hint. */
void quotas_refused(struct sim *sim, const char *text, size_t bytes, uint64_t retry_after_us);
void quotas_check(struct sim *sim); /* what is counted is what is there, and within the quotas */
void quotas_check_end(struct sim *sim, const struct broker *broker);

/* ---- scarce.c: limits of memory that are lowered and raised ---- */
void scarce_draw(struct sim *sim);
void scarce_side_up(struct sim *sim);
void scarce_some(struct sim *sim); /* a limit moves, an allocation fails */
void scarce_heal(struct sim *sim);
void scarce_refused(struct sim *sim, const char *text, size_t bytes);
void scarce_given(struct sim *sim, const struct worker *worker); /* a message goes to it */
void scarce_check_end(struct sim *sim);

/* ---- check.c ---- */
void check_all(struct sim *sim);
void check_given(struct sim *sim, const struct sim_side *side, uint32_t peer); /* a job goes to that worker */

/* ---- fair.c ---- */
void fair_begin(struct sim *sim); /* forgets what was seen of a broker before */
void fair_check(struct sim *sim); /* what is charged and not settled is under way */

/* ---- sides.c ---- */
uint64_t sides_clock(void); /* of the world in hand */
void side_up(struct sim *sim, struct sim_side *side);
void side_down(struct sim *sim, struct sim_side *side); /* killed: what it had not handed over is lost */
void side_turn(struct sim *sim,
               struct sim_side *side);         /* it reads the clock, as broker/loop.c does before it is told */
void sides_tick(struct sim *sim);              /* what is due by time; a broker that has drained ends */
void sides_redis(struct sim *sim);             /* Redis' answers reach their brokers */
uint64_t sides_next_us(const struct sim *sim); /* when one of them has something to do */

/* ---- settle.c ---- */

/* What is on its way arrives, workers answer at once, until nothing moves any more. */
void sim_flow(struct sim *sim);
/* Mends the world and lets time pass until nobody waits; fails when somebody waits for ever, or something is left. */
void sim_settle(struct sim *sim);

/* ---- schedule.c ---- */

void world_begin(struct sim *sim, const struct options *options, uint64_t seed);
void world_end(struct sim *sim);
void sim_counts_add(struct sim_counts *to, const struct sim_counts *from);
struct sim_side *sim_some_side(struct sim *sim); /* a broker that is there; where there is one, nothing is drawn */
void sim_signs_of_life(struct sim *sim);         /* of all workers and clients */
/* One schedule. False: sim->failure says what, sim->step when. Frees all it made; counts add up in *counts. */
bool sim_run(struct sim *sim, const struct options *options, uint64_t seed);

/* ---- tallies.c ---- */

/* What one side has counted adds up. */
void tallies_check(struct sim *sim);

#endif
