#include "redirect.h"

#include <string.h>

#include "connection.h"
#include "control.pb-c.h"
#include "tensor_codec.h"

#define RESUME_ARENA_BYTES (64u * 1024u)

/* The first that can be an endpoint, and is not where we are; NULL: none. */
static const char *choose(const struct pen_client *c, char *const *endpoints, size_t count)
{
    for (size_t i = 0; i < count && !c->stays && c->session.followed < REDIRECTS_MAX; i++) {
        struct endpoints one = {.count = 0};
        bool good = strlen(endpoints[i]) <= ENDPOINTS_ONE_BYTES_MAX && strcmp(endpoints[i], connection_place(c)) != 0 &&
                    endpoints_parse(endpoints[i], &one, NULL) == PEN_OK;
        good = good && one.count == 1;
        endpoints_fini(&one);
        if (good) {
            return endpoints[i];
        }
    }
    return NULL;
}

bool redirect_welcome(struct pen_client *c, const Penstock__Welcome *welcome, uint64_t now_us)
{
    const char *to = choose(c, welcome->redirect, welcome->n_redirect);
    if (to) {
        connection_move(c, to, now_us);
    }
    return to != NULL;
}

bool redirect_resume(struct pen_client *c, const struct incoming *in, uint64_t now_us)
{
    struct meta_arena arena;
    if (in->env.meta_bytes == 0) {
        return false;
    }
    meta_arena_init(&arena, RESUME_ARENA_BYTES);
    Penstock__Resume *resume = meta_unpack(&arena, &penstock__resume__descriptor, in->meta, in->env.meta_bytes);
    const char *to = resume ? choose(c, resume->redirect, resume->n_redirect) : NULL;
    if (to) {
        connection_move(c, to, now_us);
    }
    meta_arena_fini(&arena);
    return to != NULL;
}

void redirect_settle(struct pen_client *c)
{
    c->session.followed = 0;
}
