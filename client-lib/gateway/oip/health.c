/* health.c - is the gateway alive, can the pool answer? Both from what is known already: they never wait. */
#include "calls.h"
#include "deadline.h"

#define STALE_US 5000000u /* a broker that has not answered for so long is taken for gone */

enum pen_status answer_live(struct call *call, struct pen_error *reterr)
{
    (void)call;
    (void)reterr;
    return PEN_OK;
}

static const char *why_not(const struct listing *listing)
{
    if (!listing || clock_now_us() - listing->at_us > STALE_US)
        return "the broker does not answer";
    for (size_t i = 0; i < listing->models->count; i++)
        if (model_is_ready(listing->models->models[i]))
            return NULL;
    return "no worker is ready with any model";
}

enum pen_status answer_ready(struct call *call, struct pen_error *reterr)
{
    const struct listing *listing = directory_peek(call->gateway->own->directory);
    const char *why = call->gateway->draining ? "the gateway is ending" : why_not(listing);
    listing_release(listing);
    return why ? pen_error_set(reterr, PEN_ERR_INVALID, "not ready: %s", why) : PEN_OK;
}
