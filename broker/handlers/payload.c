#include "payload.h"

#include "worker_handler.h"
#include "client_handler.h"
#include "transfer.h"

void payload_here(struct broker *broker, struct effect *effect)
{
    struct arrival arrival;
    transfer_in_take(broker, effect, &arrival);
    struct message *message = &arrival.message;
    if (message->count == 0) {
        worker_result_dropped(broker, arrival.worker, &arrival.env);
    } else if (arrival.session) {
        const uint8_t *header = zmq_msg_data(&message->frames[0]);
        client_submit(broker, arrival.session, message, &arrival.env,
                      header + header[5]); /* byte 5: where the meta begins */
    } else {
        worker_result(broker, arrival.worker, message);
    }
    message_fini(message);
    transfer_in_taken(broker, &arrival);
}
