/*
 * lobby.h - jobs that came before their workers: after a restart clients are often back first.
 *
 * For --restart-wait after its start the broker keeps jobs that nobody offers a model for yet, instead of refusing them. They are judged again
 * (submit_waiting) whenever a worker says what it offers, and for the last time when the wait is over.
 * Threads: owner.
 */
#ifndef LOBBY_H
#define LOBBY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "frame.h"
#include "job_id.h"
#include "port.h"

#define LOBBY_JOBS_MAX 16384u

struct lobby_entry {
    TAILQ_ENTRY(lobby_entry) in_lobby;
    struct envelope env;
    struct message message; /* the whole SUBMIT */
    uint64_t since_us;
};
TAILQ_HEAD(lobby_list, lobby_entry);

struct lobby {
    struct lobby_list entries; /* in order of arrival */
    uint64_t count, bytes;
};

void lobby_init(struct lobby *lobby);
void lobby_fini(struct lobby *lobby); /* drops what is left */
/* Takes the message's frames. False: no room (jobs, `limit_bytes`, memory) and nothing taken. A repeated job id is dropped, as it waits already. */
bool lobby_keep(struct lobby *lobby, const struct envelope *env, struct message *message, uint64_t now_us,
                uint64_t limit_bytes);
/* True when the job waited here; it is dropped. */
bool lobby_remove(struct lobby *lobby, struct job_id id);
/* The oldest, taken out: the caller frees it with lobby_entry_free. NULL: none. */
struct lobby_entry *lobby_take(struct lobby *lobby);
void lobby_entry_free(struct lobby_entry *entry);

#endif
