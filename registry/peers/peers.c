/* peers.c - addresses, ids, the order of each content, and the wait for one's turn. */
#include "peers.h"

#include "content_key.h"
#include "deadline.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define LOOK_US         UINT64_C(5000000) /* between looks at names and at those who did not answer */
#define LOOK_LONGEST_US UINT64_C(3000000)
#define PATIENCE_US     UINT64_C(1500000) /* for each of the first in the order: it may have just begun */
#define BLAME_US        UINT64_C(60000000)
#define WAIT_US         UINT64_C(600000000) /* for one who says that it is fetching */
#define TURNS_MAX       3u
#define ROUND_NS        50000000L

struct peer {
    char url[160], id[PEERS_ID_BYTES]; /* id "": has not answered */
    struct place *place;
    uint64_t blamed_us;
};

struct peers {
    pthread_mutex_t lock;
    char *list;
    char own_id[PEERS_ID_BYTES];
    bool (*stop)(void);
    struct peer *peers; /* [PEERS_MAX] */
    size_t count;
    uint64_t looked_us;
    unsigned round;
    size_t next_ask; /* where the next look goes on, when those who do not answer took the time of this one */
};

void peers_free(struct peers *peers)
{
    if (!peers)
        return;
    for (size_t i = 0; i < peers->count; i++)
        place_close(peers->peers[i].place);
    pthread_mutex_destroy(&peers->lock);
    free(peers->peers);
    free(peers->list);
    free(peers);
}

/* ---- who there is -------------------------------------------------------------------------------------------------------------------- */

static void peer_add(struct peers *peers, const char *url)
{
    struct place *place = NULL;
    for (size_t i = 0; i < peers->count; i++)
        if (strcmp(peers->peers[i].url, url) == 0)
            return;
    if (peers->count == PEERS_MAX || place_open(url, peers->stop, &place, NULL) != PEN_OK)
        return;
    struct peer *peer = &peers->peers[peers->count++];
    *peer = (struct peer){.place = place};
    place_hurry(place);
    snprintf(peer->url, sizeof peer->url, "%s", url);
}

static void addresses_add(struct peers *peers, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char number[64], url[160];
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return; /* it is asked again at the next look */
    for (const struct addrinfo *item = found; item; item = item->ai_next) {
        if (getnameinfo(item->ai_addr, item->ai_addrlen, number, sizeof number, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        snprintf(url, sizeof url, item->ai_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", number, port);
        peer_add(peers, url);
    }
    freeaddrinfo(found);
}

/* "http://HOST:PORT", "HOST:PORT", "[ADDRESS]:PORT"; false: neither. */
static bool entry_split(const char *entry, char host[128], char port[8])
{
    const char *begin = strncmp(entry, "http://", 7) == 0 ? entry + 7 : entry;
    size_t whole = strcspn(begin, "/");
    const char *colon = memrchr(begin, ':', whole);
    size_t bytes = colon ? (size_t)(colon - begin) : 0, digits = whole - bytes;
    bool six = bytes > 2 && begin[0] == '[' && begin[bytes - 1] == ']';
    if (bytes == 0 || bytes > 127 || digits < 2 || digits > 6 || strstr(begin, "://") ||
        strspn(colon + 1, "0123456789") < digits - 1)
        return false;
    snprintf(host, 128, "%.*s", (int)(six ? bytes - 2 : bytes), begin + six);
    snprintf(port, 8, "%.*s", (int)(digits - 1), colon + 1);
    return true;
}

static enum pen_status list_walk(struct peers *peers, bool resolve, struct pen_error *reterr)
{
    char entry[160], host[128], port[8];
    for (const char *at = peers->list; *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", ");
        snprintf(entry, sizeof entry, "%.*s", (int)length, at);
        if (length >= sizeof entry || !entry_split(entry, host, port))
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "'%.120s' is no address of another worker: it must be HOST:PORT", entry);
        if (resolve)
            addresses_add(peers, host, port);
        at += length;
    }
    return PEN_OK;
}

enum pen_status peers_new(const char *list, const char *own_id, bool (*stop)(void), struct peers **ret_peers,
                          struct pen_error *reterr)
{
    struct peers *peers = calloc(1, sizeof *peers);
    if (peers) {
        pthread_mutex_init(&peers->lock, NULL);
        peers->stop = stop;
        peers->list = strdup(list);
        peers->peers = calloc(PEERS_MAX, sizeof *peers->peers);
        snprintf(peers->own_id, sizeof peers->own_id, "%s", own_id);
    }
    enum pen_status status = peers && peers->list && peers->peers
                                 ? list_walk(peers, false, reterr)
                                 : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a list of workers");
    if (status != PEN_OK) {
        peers_free(peers);
        return status;
    }
    *ret_peers = peers;
    return PEN_OK;
}

static void id_ask(struct peer *peer)
{
    char *text = NULL;
    size_t bytes = 0;
    if (place_read_small(peer->place, "peer", PEERS_ID_BYTES, &text, &bytes, NULL) != PEN_OK)
        return;
    if (bytes == PEERS_ID_BYTES && strspn(text, "0123456789abcdef") == PEERS_ID_BYTES - 1)
        snprintf(peer->id, sizeof peer->id, "%.32s", text);
    free(text);
}

/* With the lock: one thread looks, the others wait for what it finds. */
static void peers_look(struct peers *peers)
{
    uint64_t now_us = clock_now_us();
    if (peers->looked_us != 0 && now_us - peers->looked_us < LOOK_US)
        return;
    list_walk(peers, true, NULL);
    for (size_t i = 0; i < peers->count && clock_now_us() - now_us < LOOK_LONGEST_US; i++, peers->next_ask++)
        if (!peers->peers[peers->next_ask % peers->count].id[0])
            id_ask(&peers->peers[peers->next_ask % peers->count]);
    peers->looked_us = clock_now_us();
}

void peers_blame(struct peers *peers, const struct place *place)
{
    pthread_mutex_lock(&peers->lock);
    for (size_t i = 0; i < peers->count; i++)
        if (peers->peers[i].place == place)
            peers->peers[i].blamed_us = clock_now_us();
    pthread_mutex_unlock(&peers->lock);
}

/* ---- the order of a content ---------------------------------------------------------------------------------------------------------- */

struct ranked {
    struct content_digest rank; /* the highest is the first */
    struct place *place;        /* NULL: ourselves */
};

static struct content_digest rank_of(const struct content_digest *digest, const char *id)
{
    char text[CONTENT_DIGEST_TEXT + PEERS_ID_BYTES];
    int length = snprintf(text, sizeof text, "%s%s", digest->hex, id);
    return content_digest_of(text, (size_t)length);
}

static int by_rank(const void *a, const void *b)
{
    return strcmp(((const struct ranked *)b)->rank.hex, ((const struct ranked *)a)->rank.hex);
}

static bool is_good(const struct peer *peer, uint64_t now_us)
{
    return peer->id[0] && (peer->blamed_us == 0 || now_us - peer->blamed_us > BLAME_US);
}

/* Entries that lead to the same worker count once. */
static size_t order_make(struct peers *peers, const struct content_digest *digest, struct ranked *order)
{
    size_t count = 0;
    uint64_t now_us = clock_now_us();
    pthread_mutex_lock(&peers->lock);
    peers_look(peers);
    for (size_t i = 0; i < peers->count; i++) {
        const struct peer *peer = &peers->peers[i];
        if (!is_good(peer, now_us))
            continue;
        struct ranked ranked = {rank_of(digest, peer->id), strcmp(peer->id, peers->own_id) == 0 ? NULL : peer->place};
        bool known = false;
        for (size_t j = 0; j < count; j++)
            known |= content_digest_equal(&order[j].rank, &ranked.rank);
        if (!known)
            order[count++] = ranked;
    }
    pthread_mutex_unlock(&peers->lock);
    qsort(order, count, sizeof *order, by_rank);
    return count;
}

/* ---- the wait ------------------------------------------------------------------------------------------------------------------------ */

struct peers_wait {
    struct peers *peers;
    const struct content_digest *digest;
    const struct ranked *order;
    size_t count, turn;
    uint64_t turn_us, began_us;
};

/* OK: it has it; BUSY: it fetches it, or has no room for us now. */
static enum pen_status peer_ask(const struct peers_wait *wait, size_t index)
{
    char key[PLACE_KEY_BYTES];
    uint64_t bytes = 0;
    struct place *place = wait->order[index].place;
    return place ? place_look(place, content_key(wait->digest, key), &bytes, NULL) : PEN_ERR_NOT_FOUND;
}

/* Somebody else in the order, another one each time: those who have it pass it on. */
static size_t other_choose(const struct peers_wait *wait)
{
    pthread_mutex_lock(&wait->peers->lock);
    size_t index = (wait->turn + 1 + wait->peers->round++ % (wait->count - 1)) % wait->count;
    pthread_mutex_unlock(&wait->peers->lock);
    return index;
}

static bool turn_find(struct peers_wait *wait, struct place **ret_place)
{
    size_t other = wait->count > 1 ? other_choose(wait) : wait->turn;
    enum pen_status first = peer_ask(wait, wait->turn);
    *ret_place = wait->order[wait->turn].place;
    if (first == PEN_OK)
        return true;
    *ret_place = wait->order[other].place;
    if (other != wait->turn && peer_ask(wait, other) == PEN_OK)
        return true;
    uint64_t now_us = clock_now_us();
    if (first == PEN_ERR_BUSY && now_us - wait->began_us < WAIT_US) {
        wait->turn_us = now_us;
    } else if (now_us - wait->turn_us > PATIENCE_US) {
        wait->turn++;
        wait->turn_us = now_us;
    }
    return false;
}

enum peers_answer peers_find(struct peers *peers, const struct content_digest *digest, struct place **ret_place)
{
    struct ranked *order = calloc(PEERS_MAX, sizeof *order);
    struct peers_wait wait = {.peers = peers, .digest = digest, .order = order};
    enum peers_answer answer = PEERS_NONE;
    wait.count = order ? order_make(peers, digest, order) : 0;
    wait.turn_us = wait.began_us = clock_now_us();
    while (wait.turn < wait.count && wait.turn < TURNS_MAX && order[wait.turn].place &&
           !(peers->stop && peers->stop())) {
        if (turn_find(&wait, ret_place)) {
            answer = PEERS_HAVE;
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = ROUND_NS}, NULL);
    }
    free(order);
    return answer;
}
