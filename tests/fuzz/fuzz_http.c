/*
 * What the broker's pages make of a request once libmicrohttpd has read it: paths with their escapes and the questions in them, Host headers, and the
 * addresses of --http. The first byte chooses; behind it stands the text. The pages show a pool with a worker, jobs that went well and one that did not.
 */
#include "address.h"
#include "desk.h"
#include "http.h"
#include "http_page.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX 4096u

static struct post *post;

static uint64_t still(void)
{
    return 1000000; /* a snapshot that never ages serves every input */
}

static void *wish(void *unused)
{
    struct snapshot *snapshot = NULL;
    (void)unused;
    if (post_get(post, 0, UINT64_MAX / 4, &snapshot) == PEN_OK)
        post_release(post, snapshot);
    return NULL;
}

/* A broker with a past, and a snapshot of it. */
static void post_open(void)
{
    static const struct wire_model echo = {.name = "ec ho", .version = 3, .backend = "xnnpack", .digest = 9};
    static const struct wire_worker worker = {
        .uuid = 5, .name = "o\"ne", .slots = 1, .models = &echo, .models_count = 1};
    struct desk *desk = desk_new();
    pthread_t thread;
    struct snapshot *snapshot = NULL;
    desk_open(desk);
    desk_worker(desk, 1, &worker);
    desk_client(desk, 2, 0xC);
    for (uint64_t i = 1; i <= 3; i++) {
        desk_submit(desk, 2, &(struct wire_job){.id = {0xC, i}, .model = "ec ho", .fill = (uint8_t)i});
        desk_result(desk, 1, (struct job_id){0xC, i}, (uint8_t)(i + 1), 1);
    }
    desk_submit(desk, 2, &(struct wire_job){.id = {0xC, 9}, .model = "absent"});
    post = post_new(still);
    if (!post || pthread_create(&thread, NULL, wish, NULL) != 0)
        abort();
    while (!snapshot) { /* until the thread has wished */
        post_beat(post, still());
        post_serve(post, &desk->broker);
        post_get(post, 1, 0, &snapshot);
    }
    post_release(post, snapshot);
    pthread_join(thread, NULL);
    desk_free(desk);
}

static void page(const char *path)
{
    struct page made;
    page_make(&(struct page_source){.post = post}, path, &made);
    if (made.status < 200 || made.status > 599 || !made.type || (!made.fixed && !made.stream && made.body.used == 0))
        abort();
    page_fini(&made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_MAX + 1];
    if (!post)
        post_open();
    if (size == 0)
        return 0;
    size_t length = size - 1 < TEXT_MAX ? size - 1 : TEXT_MAX;
    memcpy(text, data + 1, length);
    text[length] = '\0';
    if (data[0] % 4 == 0)
        page(text);
    else if (data[0] % 4 == 1)
        address_host_local(text);
    else if (data[0] % 4 == 2)
        address_parse(text, &(struct sockaddr_storage){.ss_family = AF_UNSPEC}, &(socklen_t){0}, NULL);
    else { /* the questions of `penstock trace` by themselves */
        char path[TEXT_MAX + 16] = "/api/trace/";
        memcpy(path + 11, text, length + 1);
        page(path);
    }
    return 0;
}
