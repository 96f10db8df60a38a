/* place_bucket.c - a registry in a bucket: each request is signed, paths have the bucket in front. */
#include "place_kind.h"

#include "content_digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY_SHA256   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define LIST_BYTES_MAX (8u * 1024u * 1024u) /* of one answer, with at most 1000 names */
#define LIST_PAGES_MAX 1000u
#define TOKEN_BYTES    1024u
#define PUT_BYTES_MAX  (UINT64_C(5) << 30) /* of one request: S3's own limit */

/* ---- settings ------------------------------------------------------------------------------------------------------------------------ */

static bool variable_copy(const char *name, char *text, size_t room)
{
    const char *value = getenv(name);
    int length = snprintf(text, room, "%s", value ? value : "");
    return (size_t)length < room && !strpbrk(text, "\r\n");
}

static enum pen_status key_init(struct sign_key *key, struct pen_error *reterr)
{
    bool good =
        variable_copy("AWS_ACCESS_KEY_ID", key->id, sizeof key->id) &&
        variable_copy("AWS_SECRET_ACCESS_KEY", key->secret, sizeof key->secret) &&
        variable_copy("AWS_SESSION_TOKEN", key->token, sizeof key->token) &&
        variable_copy(getenv("AWS_REGION") ? "AWS_REGION" : "AWS_DEFAULT_REGION", key->region, sizeof key->region);
    if (!good)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a variable AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN or AWS_REGION is "
                             "too long or has several lines");
    if (!key->id[0] != !key->secret[0])
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together: set both, or neither for a "
                             "bucket that everybody may read");
    if (!key->region[0])
        snprintf(key->region, sizeof key->region, "us-east-1");
    return PEN_OK;
}

/* The port that a URL's scheme means anyhow is not in the header Host. */
static void host_fill(struct place *place, const char *scheme, const char *host, size_t length)
{
    const char *usual = strcmp(scheme, "https") == 0 ? ":443" : ":80";
    size_t tail = strlen(usual);
    if (length > tail && memcmp(host + length - tail, usual, tail) == 0)
        length -= tail;
    snprintf(place->host, sizeof place->host, "%.*s", (int)length, host);
    snprintf(place->root, sizeof place->root, "%s://%s", scheme, place->host);
}

enum pen_status place_bucket_init(struct place *place, const char *text, struct pen_error *reterr)
{
    char host[128], bucket[160];
    enum pen_status status = key_init(&place->key, reterr);
    if (status != PEN_OK)
        return status;
    const char *rest = strstr(text, "://") + 3;
    if (strncmp(text, "s3://", 5) == 0) {
        snprintf(host, sizeof host, "s3.%s.amazonaws.com", place->key.region);
        host_fill(place, "https", host, strlen(host));
    } else {
        size_t length = strcspn(rest, "/");
        host_fill(place, strncmp(text, "s3+https", 8) == 0 ? "https" : "http", rest, length);
        rest += length + (rest[length] == '/');
    }
    int length = snprintf(bucket, sizeof bucket, "/%s", rest);
    while (length > 0 && (size_t)length < sizeof bucket && bucket[length - 1] == '/')
        bucket[--length] = '\0';
    if (length <= 1 || (size_t)length >= sizeof bucket || !place->host[0] ||
        !sign_escape(bucket, true, place->bucket, sizeof place->bucket))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%.200s names no bucket: write s3://BUCKET/PREFIX or s3+http://HOST:PORT/BUCKET/PREFIX",
                             text);
    return PEN_OK;
}

/* ---- requests ------------------------------------------------------------------------------------------------------------------------ */

struct bucket_request {
    struct http_request http;
    const char *path, *query;   /* escaped */
    const char *payload_sha256; /* NULL = nothing is sent */
};

static enum pen_status bucket_run(struct place *place, struct bucket_request *request, struct http_answer *ret_answer,
                                  struct pen_error *reterr)
{
    char url[HTTP_URL_BYTES], headers[SIGN_HEADERS_MAX][SIGN_HEADER_BYTES];
    size_t count = 0;
    struct sign_asked asked = {.method = request->http.method,
                               .host = place->host,
                               .path = request->path,
                               .query = request->query,
                               .payload_sha256 = request->payload_sha256 ? request->payload_sha256 : EMPTY_SHA256,
                               .now = time(NULL)};
    int length =
        snprintf(url, sizeof url, "%s%s%s%s", place->root, request->path, *request->query ? "?" : "", request->query);
    if ((size_t)length >= sizeof url || (place->key.id[0] && (count = sign_s3(&place->key, &asked, headers)) == 0))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the URL of %.200s is too long", request->path);
    request->http.url = url;
    for (size_t i = 0; i < count; i++)
        request->http.headers[i] = headers[i];
    return http_run(place->http, &request->http, ret_answer, reterr);
}

static bool path_make(const struct place *place, const char *key, char path[HTTP_URL_BYTES])
{
    int length = snprintf(path, HTTP_URL_BYTES, "%s/", place->bucket);
    return sign_escape(key, true, path + length, HTTP_URL_BYTES - (size_t)length);
}

static enum pen_status content_run(struct place *place, const char *key, struct bucket_request *request,
                                   struct http_answer *ret_answer, struct pen_error *reterr)
{
    char path[HTTP_URL_BYTES];
    if (!path_make(place, key, path))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the name %s is too long", key);
    request->path = path;
    request->query = "";
    return bucket_run(place, request, ret_answer, reterr);
}

static enum pen_status bucket_read(struct place *place, const struct place_part *part, struct pen_error *reterr)
{
    struct http_answer answer;
    struct bucket_request request = {.http = {.method = "GET",
                                              .ranged = part->first > 0 || part->last != UINT64_MAX,
                                              .first = part->first,
                                              .last = part->last,
                                              .sink = part->sink,
                                              .context = part->context}};
    return content_run(place, part->key, &request, &answer, reterr);
}

static enum pen_status bucket_look(struct place *place, const char *key, uint64_t *ret_bytes, struct pen_error *reterr)
{
    struct http_answer answer;
    struct bucket_request request = {.http = {.method = "HEAD"}};
    enum pen_status status = content_run(place, key, &request, &answer, reterr);
    *ret_bytes = answer.total;
    return status;
}

static enum pen_status bucket_write(struct place *place, const char *key, const struct place_content *content,
                                    struct pen_error *reterr)
{
    struct http_answer answer;
    struct bucket_request request = {
        .http = {.method = "PUT", .bytes = content->bytes, .fd = content->fd, .size = content->size},
        .payload_sha256 = content->sha256};
    if (content->size > PUT_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a bucket takes at most 5 GiB in one file; %s has %" PRIu64,
                             key, content->size);
    return content_run(place, key, &request, &answer, reterr);
}

/* ---- names --------------------------------------------------------------------------------------------------------------------------- */

/* What stands between <tag> and </tag>, from `at` on; NULL: there is none. */
static const char *tag_find(const char *at, const char *tag, size_t *ret_length)
{
    char open[40], shut[40];
    snprintf(open, sizeof open, "<%s>", tag);
    snprintf(shut, sizeof shut, "</%s>", tag);
    const char *begin = strstr(at, open);
    const char *end = begin ? strstr(begin, shut) : NULL;
    if (!end)
        return NULL;
    begin += strlen(open);
    *ret_length = (size_t)(end - begin);
    return begin;
}

struct bucket_listing {
    place_tell *tell;
    void *context;
    size_t skip; /* of each name: the prefix of the place within the bucket */
    bool goes_on;
};

/* Our own names need no escapes in XML. Those of strangers, who share the bucket, are told as they stand, and mean nothing. */
static void page_tell(struct bucket_listing *listing, const char *page)
{
    char key[PLACE_KEY_BYTES];
    size_t length = 0;
    for (const char *at = tag_find(page, "Key", &length); at && listing->goes_on;
         at = tag_find(at + length, "Key", &length)) {
        if (length <= listing->skip || length - listing->skip >= sizeof key)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)(length - listing->skip), at + listing->skip);
        listing->goes_on = listing->tell(listing->context, key);
    }
}

struct page_text {
    char *bytes;
    size_t count;
    bool full;
};

static bool page_take(void *context, uint64_t position, const void *bytes, size_t count)
{
    struct page_text *page = context;
    (void)position;
    char *longer = count <= LIST_BYTES_MAX - page->count ? realloc(page->bytes, page->count + count + 1) : NULL;
    page->full = !longer;
    if (!longer)
        return false;
    memcpy(longer + page->count, bytes, count);
    page->bytes = longer;
    page->count += count;
    longer[page->count] = '\0';
    return true;
}

/* The query's parts are in the order of their names: continuation-token, list-type, prefix. */
static bool query_make(const char *token, const char *prefix, char query[HTTP_URL_BYTES])
{
    char escaped_token[3 * TOKEN_BYTES], escaped_prefix[1024];
    if (!sign_escape(token, false, escaped_token, sizeof escaped_token) ||
        !sign_escape(prefix, false, escaped_prefix, sizeof escaped_prefix))
        return false;
    int length = snprintf(query, HTTP_URL_BYTES, "%s%s%slist-type=2&prefix=%s", *token ? "continuation-token=" : "",
                          escaped_token, *token ? "&" : "", escaped_prefix);
    return (size_t)length < HTTP_URL_BYTES;
}

/* One page of names. *token: where it goes on; "" at the end. */
static enum pen_status page_read(struct place *place, const char *path, const char *prefix,
                                 struct bucket_listing *listing, char token[TOKEN_BYTES], struct pen_error *reterr)
{
    char query[HTTP_URL_BYTES];
    struct page_text page = {.bytes = NULL};
    struct http_answer answer;
    size_t length = 0;
    struct bucket_request request = {
        .http = {.method = "GET", .sink = page_take, .context = &page}, .path = path, .query = query};
    if (!query_make(token, prefix, query))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the name of the bucket's prefix is too long");
    enum pen_status status = bucket_run(place, &request, &answer, reterr);
    if (status == PEN_OK && page.full)
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%.200s lists more than fits into memory", place->text);
    token[0] = '\0';
    if (status == PEN_OK && page.bytes) {
        page_tell(listing, page.bytes);
        const char *next = tag_find(page.bytes, "NextContinuationToken", &length);
        if (next && length < TOKEN_BYTES)
            snprintf(token, TOKEN_BYTES, "%.*s", (int)length, next);
    }
    free(page.bytes);
    return status;
}

static enum pen_status bucket_list(struct place *place, const char *prefix, place_tell *tell, void *context,
                                   struct pen_error *reterr)
{
    char bucket[160], whole[160 + PLACE_KEY_BYTES], token[TOKEN_BYTES] = "";
    struct bucket_listing listing = {.tell = tell, .context = context, .goes_on = true};
    const char *text = strstr(place->text, "://") + 3;
    const char *name = strncmp(place->text, "s3://", 5) == 0 ? text : text + strcspn(text, "/") + 1;
    size_t name_bytes = strcspn(name, "/"), below = strlen(name);
    while (below > name_bytes && name[below - 1] == '/')
        below--;
    const char *inner = below > name_bytes ? name + name_bytes + 1 : "";
    size_t inner_bytes = below > name_bytes ? below - name_bytes - 1 : 0;
    snprintf(bucket, sizeof bucket, "/%.*s", (int)name_bytes, name);
    snprintf(whole, sizeof whole, "%.*s%s%s", (int)inner_bytes, inner, inner_bytes ? "/" : "", prefix);
    listing.skip = inner_bytes ? inner_bytes + 1 : 0;
    enum pen_status status = PEN_OK;
    unsigned pages = 0;
    do
        status = page_read(place, bucket, whole, &listing, token, reterr);
    while (status == PEN_OK && token[0] && listing.goes_on && ++pages < LIST_PAGES_MAX);
    return status;
}

const struct place_kind place_bucket = {
    .writable = true, .read = bucket_read, .look = bucket_look, .write = bucket_write, .list = bucket_list};
