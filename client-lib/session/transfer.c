#include "transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "bulk.h"
#include "deadline.h"
#include "job.h"
#include "job.pb-c.h"
#include "large_frame.h"
#include "urgency.h"

#define EARLY_MISSES     4u
#define EARLY_RETRY      32u
#define META_ARENA_BYTES (512u * 1024u)
#define AGAIN_US         2000u

struct upload {
    struct upload *next;
    struct pen_job *job; /* pending: it outlives this */
    bool early;          /* announced for its digest's sake: small enough to go whole */
    struct bulk run;
};

struct download {
    struct download *next;
    struct bulk run;
    struct incoming in; /* header; frames as they fill */
    bool untold;        /* the credit granted: there was no memory to say it */
};

/* ---- jobs --------------------------------------------------------------------------------------------------------------------------- */

/* A digest alone costs a round trip when the broker does not know it: after some in vain only now and then one is tried. */
static bool early_worthwhile(struct transfers *t)
{
    if (t->early_misses < EARLY_MISSES || ++t->early_skipped >= EARLY_RETRY) {
        t->early_skipped = 0;
        return true;
    }
    return false;
}

static bool early_wanted(struct pen_client *c, const struct pen_job *job, uint64_t bytes)
{
    const unsigned never = FRAME_FLAG_NO_CACHE | FRAME_FLAG_DETACHED | FRAME_FLAG_FETCH;
    return c->session.digest_first_bytes && bytes > c->session.digest_first_bytes &&
           (job->env.flags & FRAME_FLAG_DIGEST) && !(job->env.flags & never) && job->env.sequence_id == 0 &&
           early_worthwhile(&c->transfers);
}

static struct upload **upload_of(struct pen_client *c, const struct pen_job *job)
{
    struct upload **at = &c->transfers.uploads;
    while (*at && (*at)->job != job) {
        at = &(*at)->next;
    }
    return at;
}

static void upload_remove(struct pen_client *c, const struct pen_job *job)
{
    struct upload **at = upload_of(c, job), *upload = *at;
    if (upload) {
        *at = upload->next;
        free(upload);
    }
}

bool transfer_announce(struct pen_client *c, struct pen_job *job, struct envelope env)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < job->frames_count; i++) {
        bytes += job->frames[i].bytes;
    }
    bool large = c->session.bulk_bytes && bytes > c->session.bulk_bytes;
    bool early = !large && early_wanted(c, job, bytes);
    if (!large && !early) {
        return false;
    }
    struct upload *upload = malloc(sizeof *upload);
    if (!upload || link_attach(&c->link, c->session.uuid) != 0) {
        free(upload);
        return false;
    }
    uint32_t number = (uint32_t)job->env.job.sequence;
    upload->job = job;
    upload->early = early;
    bulk_init(&upload->run, number ? number : 1);
    for (size_t i = 0; i < job->frames_count; i++) {
        bulk_add(&upload->run, job->frames[i].bytes);
    }
    env.frames = (uint8_t)job->frames_count;
    env.transfer = upload->run.number;
    env.flags = (uint16_t)(env.flags | (early ? FRAME_FLAG_DIGEST_FIRST : 0));
    if (link_send(&c->link, env, job->meta, job->meta_bytes) != 0) {
        free(upload);
        return false;
    }
    PEN_ASSERT(job_pending(job), "a payload is announced of a job that awaits its answer");
    PEN_ASSERT_SLOW(!*upload_of(c, job), "a job's payload is announced once on a connection");
    upload->next = c->transfers.uploads;
    c->transfers.uploads = upload;
    return true;
}

static struct upload *upload_find(const struct pen_client *c, const struct envelope *env)
{
    struct upload *upload = c->transfers.uploads;
    while (upload && (upload->run.number != env->transfer || upload->job->env.job.sequence != env->job.sequence)) {
        upload = upload->next;
    }
    return upload;
}

/* As far as the credit goes. What there is no memory for is sent a little later. */
static void send_pieces(struct pen_client *c, struct upload *upload, uint64_t now_us)
{
    struct bulk_piece piece;
    struct pen_job *job = upload->job;
    uint64_t offset = upload->run.moved;
    PEN_ASSERT(job_pending(job), "a payload is sent of a job that awaits its answer");
    while (bulk_next(&upload->run, &piece)) {
        struct envelope chunk = bulk_envelope(FRAME_CHUNK, (struct job_id){c->session.uuid, job->env.job.sequence},
                                              upload->run.number, offset);
        const unsigned char *from = (const unsigned char *)job->frames[piece.frame].data + piece.at;
        if (link_send_chunk(&c->link, chunk, job->payload, from, piece.bytes) != 0) {
            bulk_back(&upload->run, &piece);
            c->transfers.again_us = now_us + AGAIN_US;
            return;
        }
        offset = upload->run.moved;
    }
    PEN_ASSERT(upload->run.moved <= upload->run.granted && upload->run.granted <= upload->run.total,
               "no more is sent than the broker asked for, and no more asked for than there is");
    if (bulk_done(&upload->run)) {
        upload_remove(c, job);
    }
}

void transfer_credit(struct pen_client *c, const struct envelope *env, uint64_t now_us)
{
    struct upload *upload = upload_find(c, env);
    if (upload && upload->early && upload->run.granted == 0) {
        c->transfers.early_misses++;
    }
    if (!upload || !bulk_credited(&upload->run, env->offset)) {
        return;
    }
    send_pieces(c, upload, now_us);
}

uint64_t transfer_again_us(const struct pen_client *c)
{
    return c->transfers.again_us ? c->transfers.again_us : DEADLINE_NONE;
}

/* ---- results ------------------------------------------------------------------------------------------------------------------------ */

/* Without memory nothing is said: then the broker finds, after its liveness, that its transfer does not move. */
static void decline(struct pen_client *c, struct job_id id, uint32_t number)
{
    struct envelope env = bulk_envelope(FRAME_CREDIT, id, number, 0);
    env.status = (uint8_t)PEN_ERR_CANCELLED;
    link_send(&c->link, env, NULL, 0);
}

/* What there is no memory to say is said a little later. */
static void tell_credit(struct pen_client *c, struct download *download, uint64_t now_us)
{
    const struct bulk *run = &download->run;
    PEN_ASSERT(run->moved <= run->granted && run->granted <= run->total, "no more comes than was granted");
    struct envelope env = bulk_envelope(FRAME_CREDIT, download->in.env.job, run->number, run->granted);
    download->untold = link_send(&c->link, env, NULL, 0) != 0;
    if (download->untold) {
        c->transfers.again_us = now_us + AGAIN_US;
    }
}

void transfer_again(struct pen_client *c, uint64_t now_us)
{
    if (now_us < transfer_again_us(c)) {
        return;
    }
    PEN_ASSERT(c->session.state == SESSION_READY, "payloads move to and from a broker that has welcomed us");
    c->transfers.again_us = 0;
    for (struct upload *upload = c->transfers.uploads, *next; upload; upload = next) {
        next = upload->next;
        send_pieces(c, upload, now_us);
    }
    for (struct download *download = c->transfers.downloads; download; download = download->next) {
        if (download->untold) {
            tell_credit(c, download, now_us);
        }
    }
}

static enum pen_status read_sizes(const struct pen_client *c, const struct incoming *in, struct bulk *ret_run,
                                  struct pen_error *reterr)
{
    struct meta_arena arena;
    meta_arena_init(&arena, META_ARENA_BYTES);
    const Penstock__ResultMeta *meta =
        meta_unpack(&arena, &penstock__result_meta__descriptor, in->meta, in->env.meta_bytes);
    enum pen_status status;
    if (meta) {
        status = bulk_expect(ret_run, in->env.transfer, meta->outputs, meta->n_outputs, in->env.frames,
                             c->link.frame_bytes_max, 0, reterr);
    } else if (arena.starved) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the answer's description.");
    } else {
        status = meta_refusal(&arena, "the answer's description is malformed.", reterr);
    }
    meta_arena_fini(&arena);
    return status;
}

static enum pen_status take_memory(struct download *download, struct pen_error *reterr)
{
    struct incoming *in = &download->in;
    for (uint32_t i = 0; i < download->run.count; i++) {
        if (large_frame_new(&in->frames[i], download->run.sizes[i]) != 0) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for an answer of %llu bytes.",
                                 (unsigned long long)download->run.total);
        }
        in->frames_count++;
    }
    return PEN_OK;
}

static void header_take(struct download *download, struct incoming *in)
{
    struct pen_error ignored = {.status = PEN_OK};
    zmq_msg_init(&download->in.header);
    zmq_msg_move(&download->in.header, &in->header);
    frame_set_transfer(zmq_msg_data(&download->in.header), 0);
    /* Again, because a small message lives inside its zmq_msg_t. It was good before. */
    envelope_decode(zmq_msg_data(&download->in.header), zmq_msg_size(&download->in.header), &download->in.env,
                    &download->in.meta, &ignored);
}

static void download_free(struct download *download)
{
    incoming_fini(&download->in);
    free(download);
}

static void download_remove(struct pen_client *c, uint64_t sequence)
{
    for (struct download **at = &c->transfers.downloads; *at; at = &(*at)->next) {
        if ((*at)->in.env.job.sequence == sequence) {
            struct download *download = *at;
            *at = download->next;
            download_free(download);
            return;
        }
    }
}

/* All that the result needs: its sizes, memory, a connection for its bytes. What was taken is in *download, also when it fails. */
static enum pen_status download_begin(struct pen_client *c, struct download *download, struct incoming *in,
                                      struct pen_error *reterr)
{
    enum pen_status status = read_sizes(c, in, &download->run, reterr);
    if (status == PEN_OK) {
        header_take(download, in);
        status = take_memory(download, reterr);
    }
    errno = 0;
    if (status == PEN_OK && link_attach(&c->link, c->session.uuid) != 0) {
        status = pen_error_set(reterr, errno == ENOMEM ? PEN_ERR_NO_MEMORY : PEN_ERR_IO,
                               "cannot open a second connection to the broker.");
    }
    return status;
}

static void download_add(struct pen_client *c, struct download *download, uint64_t now_us)
{
    c->transfers.moved_us = c->transfers.downloads ? c->transfers.moved_us : now_us;
    download->next = c->transfers.downloads;
    c->transfers.downloads = download;
    bulk_grant(&download->run);
    tell_credit(c, download, now_us);
}

struct pen_job *transfer_result(struct pen_client *c, struct incoming *in, uint64_t now_us, struct pen_error *reterr)
{
    struct job_id id = in->env.job;
    uint32_t number = in->env.transfer;
    struct pen_job *job = id.client == c->session.uuid ? pending_find(&c->pending, id.sequence) : NULL;
    if (!job) {
        c->counters.results_duplicate++;
        decline(c, id, number);
        return NULL;
    }
    download_remove(c, id.sequence); /* announced again */
    struct download *download = calloc(1, sizeof *download);
    reterr->status =
        download ? download_begin(c, download, in, reterr) : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory.");
    if (reterr->status == PEN_OK) {
        download_add(c, download, now_us);
        return NULL;
    }
    if (download) {
        download_free(download);
    }
    decline(c, id, number);
    return job;
}

bool transfer_chunk(struct pen_client *c, const struct incoming *in, uint64_t now_us, struct incoming *ret_in)
{
    struct bulk_piece piece;
    struct download **at = &c->transfers.downloads;
    while (*at && ((*at)->run.number != in->env.transfer || (*at)->in.env.job.sequence != in->env.job.sequence)) {
        at = &(*at)->next;
    }
    struct download *download = *at;
    c->transfers.moved_us = now_us;
    if (!download) {
        return false; /* its job has ended */
    }
    const zmq_msg_t *chunk = &in->frames[0];
    if (!bulk_accept(&download->run, in->env.offset, zmq_msg_size(chunk), &piece)) {
        c->counters.messages_bad++;
        c->session.drop_wanted = true;
        return false;
    }
    PEN_ASSERT(piece.at + piece.bytes <= zmq_msg_size(&download->in.frames[piece.frame]),
               "what comes has its place in the memory that was taken for it");
    memcpy((unsigned char *)zmq_msg_data(&download->in.frames[piece.frame]) + piece.at,
           zmq_msg_data((zmq_msg_t *)(uintptr_t)chunk), piece.bytes);
    PEN_ASSERT(download->run.moved <= download->run.granted, "no more comes than was granted");
    urgency_make_way();
    if (!bulk_done(&download->run)) {
        if (bulk_grant(&download->run)) {
            tell_credit(c, download, now_us);
        }
        return false;
    }
    *at = download->next;
    incoming_move(ret_in, &download->in);
    download_free(download);
    return true;
}

/* ---- ends --------------------------------------------------------------------------------------------------------------------------- */

void transfer_answered(struct pen_client *c, const struct pen_job *job)
{
    const struct upload *upload = *upload_of(c, job);
    PEN_ASSERT(job_pending(job), "who is answered has awaited it");
    if (upload && upload->early && upload->run.granted == 0) { /* it was answered without its payload */
        c->transfers.early_misses = 0;
    }
}

void transfer_forget(struct pen_client *c, const struct pen_job *job)
{
    PEN_ASSERT(job_pending(job), "a job's payloads are forgotten before it leaves the pending ones");
    upload_remove(c, job);
    if (c->transfers.downloads) {
        download_remove(c, job->env.job.sequence);
    }
}

void transfer_reset(struct pen_client *c)
{
    while (c->transfers.uploads) {
        upload_remove(c, c->transfers.uploads->job);
    }
    while (c->transfers.downloads) {
        download_remove(c, c->transfers.downloads->in.env.job.sequence);
    }
}

uint64_t transfer_stall_us(const struct pen_client *c)
{
    return c->transfers.downloads ? c->transfers.moved_us + c->session.liveness_us : DEADLINE_NONE;
}
