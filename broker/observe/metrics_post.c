#include "metrics_post.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "assertion.h"
#include "mutex.h"

struct post {
    uint64_t (*clock)(void);
    int wish_fd;
    struct snapshot *pending; /* the loop's: made, but not handed over yet */
    _Atomic uint64_t beat_us;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct snapshot *latest; /* the post itself is one of its users */
    bool closed;
};

struct post *post_new(uint64_t (*clock)(void))
{
    pthread_condattr_t attributes;
    struct post *post = calloc(1, sizeof *post);
    if (!post)
        return NULL;
    post->clock = clock;
    post->wish_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (post->wish_fd < 0) {
        free(post);
        return NULL;
    }
    atomic_store(&post->beat_us, clock());
    mutex_init(&post->lock);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&post->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return post;
}

/* Call it with the lock held; returns a snapshot that the caller must free after unlocking. */
static struct snapshot *drop(struct snapshot *snapshot)
{
    PEN_ASSERT(!snapshot || snapshot->users > 0, "a snapshot that somebody gives back has a user");
    return snapshot && --snapshot->users == 0 ? snapshot : NULL;
}

void post_free(struct post *post)
{
    if (!post)
        return;
    snapshot_free(drop(post->latest));
    snapshot_free(post->pending);
    pthread_cond_destroy(&post->changed);
    mutex_fini(&post->lock);
    close(post->wish_fd);
    free(post);
}

int post_descriptor(const struct post *post)
{
    return post->wish_fd;
}

/* ---- HTTP threads ---- */

static struct timespec after_us(uint64_t us)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += (time_t)(us / 1000000);
    time.tv_nsec += (long)(us % 1000000) * 1000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static void wish(struct post *post)
{
    uint64_t one = 1;
    if (write(post->wish_fd, &one, sizeof one) < 0)
        return; /* there are wishes enough: it is readable already */
}

static bool fresh(const struct post *post, uint64_t oldest_us)
{
    return post->latest && post->latest->taken_us >= oldest_us;
}

enum pen_status post_get(struct post *post, uint64_t age_us, uint64_t timeout_us, struct snapshot **ret_snapshot)
{
    enum pen_status status = PEN_OK;
    uint64_t now_us = post->clock(), oldest_us = now_us > age_us ? now_us - age_us : 0;
    struct timespec until = after_us(timeout_us);
    mutex_take(&post->lock);
    while (!post->closed && !fresh(post, oldest_us) && status == PEN_OK) {
        wish(post);
        if (pthread_cond_timedwait(&post->changed, &post->lock, &until) != 0)
            status = PEN_ERR_TIMEOUT;
    }
    if (post->closed) {
        status = PEN_ERR_CANCELLED;
    } else if (fresh(post, oldest_us)) {
        status = PEN_OK;
        PEN_ASSERT(post->latest->users > 0, "the post is a user of the latest snapshot");
        post->latest->users++;
        *ret_snapshot = post->latest;
    }
    mutex_give(&post->lock);
    return status;
}

void post_release(struct post *post, struct snapshot *snapshot)
{
    mutex_take(&post->lock);
    struct snapshot *last = drop(snapshot);
    mutex_give(&post->lock);
    snapshot_free(last);
}

void post_withhold(struct post *post, const struct snapshot *snapshot)
{
    mutex_take(&post->lock);
    if (post->latest == snapshot) {
        PEN_ASSERT(snapshot->users > 1, "who withholds a snapshot is a user of it, besides the post");
        post->latest->users--; /* never the last: the caller has one */
        post->latest = NULL;
    }
    mutex_give(&post->lock);
}

bool post_sleep(struct post *post, uint64_t us)
{
    struct timespec until = after_us(us);
    int error = 0;
    mutex_take(&post->lock);
    while (!post->closed && error == 0)
        error = pthread_cond_timedwait(&post->changed, &post->lock, &until);
    bool open = !post->closed;
    mutex_give(&post->lock);
    return open;
}

void post_close(struct post *post)
{
    mutex_take(&post->lock);
    post->closed = true;
    pthread_cond_broadcast(&post->changed);
    mutex_give(&post->lock);
}

uint64_t post_silence_us(const struct post *post)
{
    uint64_t beat_us = atomic_load(&post->beat_us), now_us = post->clock();
    return now_us > beat_us ? now_us - beat_us : 0;
}

/* ---- the loop ---- */

void post_beat(struct post *post, uint64_t now_us)
{
    atomic_store_explicit(&post->beat_us, now_us, memory_order_relaxed);
}

void post_serve(struct post *post, const struct broker *broker)
{
    uint64_t wishes;
    if (!post->pending) {
        if (read(post->wish_fd, &wishes, sizeof wishes) < 0)
            return;
        post->pending = snapshot_take(broker);
    }
    if (!post->pending || pthread_mutex_trylock(&post->lock) != 0)
        return; /* a reader holds the lock for a few pointers: next time */
    struct snapshot *former = drop(post->latest);
    PEN_ASSERT(post->pending->users == 0, "a snapshot that was not handed over has no users");
    post->latest = post->pending;
    post->latest->users = 1;
    post->pending = NULL;
    pthread_cond_broadcast(&post->changed);
    mutex_give(&post->lock);
    snapshot_free(former);
}
