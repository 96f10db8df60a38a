/* test_store.c - partial files, models made of contents, views, and the exchange between stores. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exchange.h"
#include "store_room.h"

static char work[64];

static void begin(void)
{
    strcpy(work, "/tmp/penstock-store-XXXXXX");
    cr_assert(mkdtemp(work) != NULL);
}

static void end(void)
{
    cr_assert(disk_remove(work));
}

TestSuite(store, .init = begin, .fini = end);

static struct store *store_at(const char *name, uint64_t limit)
{
    char path[128];
    struct store *store = NULL;
    struct pen_error error = {.status = PEN_OK};
    snprintf(path, sizeof path, "%s/%s", work, name);
    cr_assert_eq(store_open(path, limit, &store, &error), PEN_OK, "%s", error.text);
    return store;
}

static struct partial *partial_at(const struct store *store, const struct content_digest *digest, uint64_t bytes)
{
    struct partial *partial = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(partial_open(store, digest, bytes, NULL, &partial, &error), PEN_OK, "%s", error.text);
    return partial;
}

Test(store, parts_that_came_are_there_the_next_time)
{
    struct store *store = store_at("s", 0);
    struct content_digest digest = content_digest_of("x", 1);
    uint64_t bytes = 3 * PARTIAL_PART_BYTES + 1;
    struct partial *partial = partial_at(store, &digest, bytes);
    cr_assert_eq(partial->parts, 4);
    cr_assert(partial_write(partial, "abc", 3, PARTIAL_PART_BYTES));
    partial_mark(partial, 1);
    partial_close(partial);
    partial = partial_at(store, &digest, bytes);
    cr_assert(memcmp(partial->marks, "0100", 4) == 0);
    cr_assert_eq(partial_part_end(partial, 3), bytes);
    partial_close(partial);
    partial = partial_at(store, &digest, bytes - PARTIAL_PART_BYTES);
    cr_assert(memcmp(partial->marks, "000", 3) == 0, "marks of another size are no marks");
    partial_close(partial);
    store_close(store);
}

static bool at_once(void)
{
    return true;
}

Test(store, one_process_fetches_a_content_and_the_others_find_it)
{
    struct store *store = store_at("s", 0);
    struct content_digest digest = content_digest_of("hello", 5);
    struct partial *one = partial_at(store, &digest, 5), *two = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(partial_open(store, &digest, 5, at_once, &two, &error), PEN_ERR_CANCELLED);
    cr_assert(partial_write(one, "hello", 5, 0));
    cr_assert_eq(partial_finish(one, false, &error), PEN_OK, "%s", error.text);
    cr_assert(partial_at(store, &digest, 5) == NULL, "it is here");
    partial_close(one);
    cr_assert(store_has(store, &digest, 5) && !store_has(store, &digest, 6));
    store_close(store);
}

static struct content_digest model_put(struct store *store, const char *name, const char *content)
{
    struct manifest manifest = {.version = 1};
    struct content_digest file = content_digest_of(content, strlen(content)), digest;
    struct pen_error error = {.status = PEN_OK};
    char *text = NULL;
    size_t bytes = 0;
    strcpy(manifest.model, name);
    cr_assert_eq(manifest_add(&manifest, "sub/model.onnx", strlen(content), &file, &error), PEN_OK);
    cr_assert_eq(manifest_write(&manifest, &text, &bytes, &error), PEN_OK);
    digest = content_digest_of(text, bytes);
    cr_assert_eq(store_room_make(store, &digest, &manifest, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(store_blob_put(store, &digest, text, bytes, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(store_model_put(store, &digest, &manifest, &error), PEN_ERR_NOT_FOUND, "a content is missing");
    cr_assert(!store_model_has(store, &digest), "half a model is none");
    cr_assert_eq(store_blob_put(store, &file, content, strlen(content), &error), PEN_OK, "%s", error.text);
    cr_assert_eq(store_model_put(store, &digest, &manifest, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(store_model_check(store, &digest, &manifest, &error), PEN_OK, "%s", error.text);
    manifest_fini(&manifest);
    free(text);
    return digest;
}

Test(store, a_changed_file_is_found_and_removed)
{
    struct store *store = store_at("s", 0);
    struct content_digest digest = model_put(store, "m", "the content");
    struct manifest manifest;
    struct pen_error error = {.status = PEN_OK};
    char path[DISK_PATH_BYTES];
    cr_assert_eq(store_manifest(store, &digest, &manifest, &error), PEN_OK, "%s", error.text);
    store_blob_path(store, &manifest.files[0].digest, path);
    chmod(path, 0644);
    cr_assert(truncate(path, 3) == 0);
    cr_assert_eq(store_model_check(store, &digest, &manifest, &error), PEN_ERR_CORRUPT);
    cr_assert(!store_model_has(store, &digest) && access(path, F_OK) != 0, "the model and its content are gone");
    manifest_fini(&manifest);
    store_close(store);
}

Test(store, what_a_living_view_names_stays_and_a_dead_view_goes)
{
    struct store *store = store_at("s", 0);
    struct content_digest digest = model_put(store, "m", "of the view");
    struct store_view *view = NULL, *other = NULL;
    struct pen_error error = {.status = PEN_OK};
    char path[DISK_PATH_BYTES], text[128] = "", dead[DISK_PATH_BYTES];
    store_path(store, "views", "dead", dead);
    cr_assert_eq(disk_make(dead, &error), PEN_OK);
    cr_assert_eq(view_open(store, &view, &error), PEN_OK, "%s", error.text);
    cr_assert(access(dead, F_OK) != 0, "a view without a process is removed");
    cr_assert_eq(view_put(view, "m", 7, &digest, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(view_choose(view, "m", (uint64_t[]){7, 9}, 2, &error), PEN_OK, "%s", error.text);
    snprintf(path, sizeof path, "%.3900s/m/7/sub/model.onnx", view_folder(view));
    cr_assert(access(path, R_OK) == 0, "the version leads to the model");
    snprintf(path, sizeof path, "%.3900s/m/config.json", view_folder(view));
    int fd = open(path, O_RDONLY);
    cr_assert(read(fd, text, sizeof text - 1) > 0 && strstr(text, "[7, 9]"), "%s", text);
    close(fd);
    cr_assert_eq(view_open(store, &other, &error), PEN_OK, "%s", error.text);
    cr_assert(access(view_folder(view), F_OK) == 0, "a view that lives stays");
    view_close(other);
    view_drop(view, "m", 7);
    struct content_digest none = content_digest_of("none", 4);
    cr_assert_eq(view_put(view, "m", 8, &none, &error), PEN_ERR_NOT_FOUND);
    snprintf(path, sizeof path, "%.3900s", view_folder(view));
    view_close(view);
    cr_assert(access(path, F_OK) != 0);
    store_close(store);
}

static void count_models(void *context, const struct content_digest *digest)
{
    (void)digest;
    ++*(size_t *)context;
}

Test(store, the_oldest_goes_and_what_is_used_stays)
{
    char block[1001] = "";
    struct store *store = store_at("s", 3000);
    struct store_view *view = NULL;
    struct pen_error error = {.status = PEN_OK};
    struct content_digest first, last;
    size_t count = 0;
    memset(block, 'a', 1000);
    first = model_put(store, "a", block);
    cr_assert_eq(view_open(store, &view, &error), PEN_OK);
    cr_assert_eq(view_put(view, "a", 1, &first, &error), PEN_OK);
    for (unsigned i = 0; i < 5; i++) {
        memset(block, 'b' + (int)i, 1000);
        usleep(2000);
        last = model_put(store, "b", block);
    }
    cr_assert(store_model_has(store, &first), "the oldest is in use");
    cr_assert(store_model_has(store, &last), "the newest is there");
    store_models(store, count_models, &count);
    cr_assert_eq(count, 2);
    cr_assert_leq(store_room_used(store), 3000 + 400);
    view_close(view);
    store_close(store);
}

Test(store, another_store_hands_a_content_over)
{
    char path[128];
    const char *why = "";
    struct store *one = store_at("one", 0), *two = store_at("two", 0);
    struct content_digest digest = content_digest_of("handed over", 11), wrong = content_digest_of("other", 5);
    struct pen_error error = {.status = PEN_OK};
    snprintf(path, sizeof path, "%s/exchange", work);
    struct exchange *exchange = exchange_open(path, &why);
    cr_assert(exchange != NULL, "%s", why);
    struct partial *partial = partial_at(two, &digest, 11);
    cr_assert(!exchange_take(exchange, partial), "nobody has it");
    int lock = exchange_lock(exchange, &digest);
    cr_assert(lock >= 0 && exchange_lock(exchange, &digest) < 0, "one fetches it");
    cr_assert_eq(store_blob_put(one, &digest, "handed over", 11, &error), PEN_OK);
    exchange_tell(exchange, one, &digest);
    exchange_unlock(exchange, &digest, lock);
    cr_assert(exchange_take(exchange, partial) && store_has(two, &digest, 11));
    partial_close(partial);
    cr_assert_eq(store_blob_put(one, &wrong, "OTHER", 5, &error), PEN_OK);
    exchange_tell(exchange, one, &wrong);
    partial = partial_at(two, &wrong, 5);
    cr_assert(!exchange_take(exchange, partial) && !store_has(two, &wrong, 5), "another content is not taken");
    partial_close(partial);
    exchange_close(exchange);
    cr_assert(chmod(path, 0750) == 0);
    cr_assert(exchange_open(path, &why) == NULL && strstr(why, "700"), "a folder that others may enter is not used");
    store_close(one);
    store_close(two);
}
