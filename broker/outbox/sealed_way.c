#include "sealed_way.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bulk_out.h"
#include "logline.h"
#include "parcel_door.h"
#include "parcel_frames.h"

/* ---- who is on this host ---- */

static struct sealed_end *end_new(struct broker *broker, struct transfer_end *end)
{
    struct sealed_end *sealed = calloc(1, sizeof *sealed);
    if (!sealed)
        return NULL;
    for (size_t at = 0; at < sizeof sealed->secret; at += sizeof(uint64_t)) {
        uint64_t random = random_u64();
        memcpy(sealed->secret + at, &random, sizeof random);
    }
    sealed->end = end;
    TAILQ_INSERT_TAIL(&broker->transfers.sealed, sealed, in_hub);
    return sealed;
}

void sealed_way_reset(struct broker *broker, struct transfer_end *end)
{
    struct sealed_end *sealed = end->sealed;
    if (!sealed)
        return;
    parcel_close(&sealed->link);
    TAILQ_REMOVE(&broker->transfers.sealed, sealed, in_hub);
    end->sealed = NULL;
    free(sealed);
}

void sealed_way_fini(struct broker *broker)
{
    while (!TAILQ_EMPTY(&broker->transfers.sealed))
        sealed_way_reset(broker, TAILQ_FIRST(&broker->transfers.sealed)->end);
}

static struct transfer_end *end_by_peer(struct broker *broker, const struct port *port, uint32_t peer)
{
    if (port == broker->clients) {
        struct session *session = session_by_peer(&broker->sessions, peer);
        return session ? &session->transfers : NULL;
    }
    struct worker *worker = fleet_by_peer(&broker->fleet, peer);
    return worker ? &worker->transfers : NULL;
}

void sealed_way_welcome(struct broker *broker, const struct port *port, uint32_t peer, Penstock__Welcome *welcome)
{
    const struct parcel_door *door = broker->transfers.door;
    struct transfer_end *end = door ? end_by_peer(broker, port, peer) : NULL;
    if (!end || !end->seals)
        return;
    sealed_way_reset(broker, end);
    end->sealed = end_new(broker, end);
    if (!end->sealed)
        return;
    welcome->sealed_name = (char *)(uintptr_t)door->name;
    welcome->sealed_secret.data = end->sealed->secret;
    welcome->sealed_secret.len = sizeof end->sealed->secret;
    welcome->sealed_bytes = (uint64_t)broker->options->sealed_from;
}

static struct sealed_end *end_of_claim(struct broker *broker, const struct parcel_claim *claim)
{
    if (claim->worker) {
        const struct worker *worker = fleet_by_uuid(&broker->fleet, claim->uuid);
        return worker ? worker->transfers.sealed : NULL;
    }
    const struct session *session = session_find(&broker->sessions, claim->uuid);
    return session ? session->transfers.sealed : NULL;
}

void sealed_way_look(struct broker *broker)
{
    struct parcel_door *door = broker->transfers.door;
    struct parcel_claim claim;
    int fd;
    while (door && parcel_door_next(door, broker->now_us, &claim, &fd)) {
        struct sealed_end *sealed = end_of_claim(broker, &claim);
        bool bound = sealed && parcel_bind(&sealed->link, fd, &claim, sealed->secret);
        if (!sealed)
            close(fd);
        log_event(LOG_DEBUG, bound ? "sealed_bound" : "sealed_refused", "%s=%016" PRIx64,
                  claim.worker ? "worker" : "client", claim.uuid);
    }
}

int sealed_way_descriptor(const struct broker *broker)
{
    return broker->transfers.door ? broker->transfers.door->watch : -1;
}

/* ---- what goes ---- */

static bool parcel_fill(const struct shared_message *shared, struct parcel *parcel)
{
    bool all = true;
    for (uint32_t i = 1; all && i < shared->count; i++)
        all = parcel_add_frame(parcel, &shared->frames[i]);
    return all;
}

static bool lies_in_sealed(const struct shared_message *shared)
{
    zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&shared->frames[1]; /* libzmq has no const */
    size_t offset;
    return sealed_view_find(zmq_msg_data(frame), zmq_msg_size(frame), &offset) != NULL;
}

/* Frames below this size are looked up in vain: sealed memory is for larger payloads. */
static bool large(const struct broker *broker, const struct shared_message *shared)
{
    return broker->transfers.door && shared->count > 1 &&
           shared_message_bytes(shared) > (uint64_t)broker->options->sealed_from;
}

bool sealed_way_send(struct broker *broker, struct transfer_end *end, const struct shared_message *shared,
                     zmq_msg_t *header)
{
    if (!large(broker, shared) || !lies_in_sealed(shared))
        return false;
    struct parcel parcel = {.number = 0};
    if (!end || !end->sealed || end->sealed->link.state != PARCEL_BOUND || !parcel_fill(shared, &parcel) ||
        !header_own(header) || !parcel_send(&end->sealed->link, &parcel)) {
        broker->stats.sealed_fallbacks++;
        return false;
    }
    frame_set_sealed(zmq_msg_data(header), parcel.number);
    broker->stats.sealed_out++;
    return true;
}
