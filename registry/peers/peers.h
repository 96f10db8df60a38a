/*
 * peers.h - other workers that serve what is in their stores: who may have a content, and who fetches it for all.
 *
 * All workers of a pool know the same list. Each content has its own order of the workers, which all compute alike from
 * its digest and the workers' ids: the first in it fetches the content from the registry, the others ask that one, and
 * pass it on when they have it. When the first does not answer or does not want the content, the next one's turn comes.
 * A worker that is not on its own list never fetches for the others, and asks them all the same.
 * Ownership: owns its places. Threads: any.
 */
#ifndef PEERS_H
#define PEERS_H

#include "content_digest.h"
#include "place.h"

#define PEERS_MAX      256u
#define PEERS_ID_BYTES 33u

struct peers;

/*
 * list: HOST:PORT or http://HOST:PORT, separated by commas; a name with several addresses stands for all of them.
 * own_id: as mirror.h tells it to others; "" = this process serves nobody.
 */
enum pen_status peers_new(const char *list, const char *own_id, bool (*stop)(void), struct peers **ret_peers,
                          struct pen_error *reterr);
void peers_free(struct peers *peers); /* NULL is fine */

/* What became of a look for a content among the others. */
enum peers_answer {
    PEERS_NONE, /* fetch it from the registry: our turn has come, or nobody has it or wants it */
    PEERS_HAVE  /* *ret_place has it */
};
/* Waits while the one whose turn it is fetches it, as long as that one says so. ret_place: borrowed. */
enum peers_answer peers_find(struct peers *peers, const struct content_digest *digest, struct place **ret_place);
/* This one sent something else than the content, or went away: it is not asked again for a while. */
void peers_blame(struct peers *peers, const struct place *place);

#endif
