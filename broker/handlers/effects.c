#include "effects.h"

#include "back.h"
#include "cascade.h"
#include "departure.h"
#include "front.h"
#include "sequence.h"
#include "transfer.h"

/* A payload that came in chunks goes where it would have gone in one piece. */
static void payload_here(struct broker *broker, struct effect *effect)
{
    struct arrival arrival;
    transfer_in_take(broker, effect, &arrival);
    struct message *message = &arrival.message;
    if (message->count == 0) {
        back_result_dropped(broker, arrival.worker, &arrival.env);
    } else if (arrival.session) {
        const uint8_t *header = zmq_msg_data(&message->frames[0]);
        front_submit(broker, arrival.session, message, &arrival.env, header + header[5]); /* byte 5: where the meta begins */
    } else {
        back_result(broker, arrival.worker, message);
    }
    message_fini(message);
    transfer_in_taken(broker, &arrival);
}

static void (*const subscribers[EFFECT_COUNT])(struct broker *broker, struct effect *effect) = {
    [EFFECT_CLIENT_GONE] = departure_client_gone,
    [EFFECT_WORKER_ENDED] = departure_worker_ended,
    [EFFECT_PAYLOAD_HERE] = payload_here,
    [EFFECT_ENSEMBLE_MOVES] = cascade_moves,
    [EFFECT_SEQUENCE_MOVES] = sequence_moves,
};

bool effects_drain(struct broker *broker)
{
    struct effects *effects = &broker->effects;
    struct effect *effect;
    uint64_t before = effects->drained;
    effects->draining = true;
    while ((effect = effects_take(effects)) != NULL) {
        effects->drained++;
        subscribers[effect->kind](broker, effect);
    }
    effects->draining = false;
    return effects->drained != before;
}
