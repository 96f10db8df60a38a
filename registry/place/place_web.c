/* place_web.c - a registry behind a web server: contents by GET, names from the file `index`. */
#include "place_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_BYTES_MAX (8u * 1024u * 1024u)

static bool url_make(const struct place *place, const char *key, char url[HTTP_URL_BYTES])
{
    int length = snprintf(url, HTTP_URL_BYTES, "%s/%s", place->root, key);
    return length > 0 && (size_t)length < HTTP_URL_BYTES;
}

static enum pen_status web_run(struct place *place, const char *key, struct http_request *request,
                               struct http_answer *ret_answer, struct pen_error *reterr)
{
    char url[HTTP_URL_BYTES];
    if (!url_make(place, key, url))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the URL of %s is too long", key);
    request->url = url;
    return http_run(place->http, request, ret_answer, reterr);
}

static enum pen_status web_read(struct place *place, const struct place_part *part, struct pen_error *reterr)
{
    struct http_answer answer;
    struct http_request request = {.method = "GET",
                                   .ranged = part->first > 0 || part->last != UINT64_MAX,
                                   .first = part->first,
                                   .last = part->last,
                                   .sink = part->sink,
                                   .context = part->context};
    return web_run(place, part->key, &request, &answer, reterr);
}

static enum pen_status web_look(struct place *place, const char *key, uint64_t *ret_bytes, struct pen_error *reterr)
{
    struct http_answer answer;
    struct http_request request = {.method = "HEAD"};
    enum pen_status status = web_run(place, key, &request, &answer, reterr);
    *ret_bytes = answer.total;
    return status;
}

static enum pen_status web_list(struct place *place, const char *prefix, place_tell *tell, void *context,
                                struct pen_error *reterr)
{
    char *text = NULL, *rest = NULL;
    size_t bytes = 0;
    enum pen_status status = place_read_small(place, "index", INDEX_BYTES_MAX, &text, &bytes, reterr);
    if (status != PEN_OK)
        return status;
    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
        if (strncmp(line, prefix, strlen(prefix)) == 0 && strlen(line) < PLACE_KEY_BYTES && !tell(context, line))
            break;
    free(text);
    return PEN_OK;
}

const struct place_kind place_web = {.read = web_read, .look = web_look, .list = web_list};
