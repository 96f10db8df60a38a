#include "lobby.h"

#include <stdlib.h>

void lobby_init(struct lobby *lobby)
{
    *lobby = (struct lobby){.count = 0};
    TAILQ_INIT(&lobby->entries);
}

static void leave(struct lobby *lobby, struct lobby_entry *entry)
{
    TAILQ_REMOVE(&lobby->entries, entry, in_lobby);
    lobby->count--;
    lobby->bytes -= entry->message.bytes;
}

void lobby_entry_free(struct lobby_entry *entry)
{
    if (entry) {
        message_fini(&entry->message);
        free(entry);
    }
}

struct lobby_entry *lobby_take(struct lobby *lobby)
{
    struct lobby_entry *entry = TAILQ_FIRST(&lobby->entries);
    if (entry)
        leave(lobby, entry);
    return entry;
}

void lobby_fini(struct lobby *lobby)
{
    struct lobby_entry *entry;
    while ((entry = lobby_take(lobby)))
        lobby_entry_free(entry);
}

static struct lobby_entry *find(struct lobby *lobby, struct job_id id)
{
    struct lobby_entry *entry;
    TAILQ_FOREACH(entry, &lobby->entries, in_lobby)
    {
        if (job_id_equal(entry->env.job, id))
            return entry;
    }
    return NULL;
}

bool lobby_remove(struct lobby *lobby, struct job_id id)
{
    struct lobby_entry *entry = find(lobby, id);
    if (!entry)
        return false;
    leave(lobby, entry);
    lobby_entry_free(entry);
    return true;
}

bool lobby_keep(struct lobby *lobby, const struct envelope *env, struct message *message, uint64_t now_us,
                uint64_t limit_bytes)
{
    if ((env->flags & FRAME_FLAG_RESENT) && find(lobby, env->job))
        return true;
    if (lobby->count >= LOBBY_JOBS_MAX || lobby->bytes + message->bytes > limit_bytes)
        return false;
    struct lobby_entry *entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    *entry = (struct lobby_entry){.env = *env, .message = *message, .since_us = now_us};
    *message = (struct message){.peer = entry->message.peer}; /* the receiver makes itself new room */
    TAILQ_INSERT_TAIL(&lobby->entries, entry, in_lobby);
    lobby->count++;
    lobby->bytes += entry->message.bytes;
    return true;
}
