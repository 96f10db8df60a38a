#include "http_check.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* RFC 9110, 5.6.2: what a name may be made of, besides letters and digits. */
#define TOKEN_MARKS "!#$%&'*+-.^_`|~"

struct heads {
    unsigned hosts, lengths, encodings;
    bool body; /* a length other than 0 */
    bool odd;  /* a name that is no token: a blank before the colon, an empty one */
};

static bool is_token(const char *name)
{
    const char *at = name;
    while ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
           (*at && strchr(TOKEN_MARKS, *at)))
        at++;
    return at != name && *at == '\0';
}

static enum MHD_Result count(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct heads *heads = context;
    bool length = strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    (void)kind;
    heads->odd |= !is_token(name);
    heads->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    heads->encodings += strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    heads->lengths += length;
    heads->body |= length && (!value || strcmp(value, "0") != 0);
    return MHD_YES;
}

const char *http_check(struct MHD_Connection *connection, const char *version)
{
    struct heads heads = {.hosts = 0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count, &heads);
    if (heads.odd)
        return "a header's name holds what no name may hold\n";
    if (heads.hosts > 1)
        return "the request has more than one Host header\n";
    if (heads.hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)
        return "the request has no Host header\n";
    if (heads.lengths > 1)
        return "the request has more than one Content-Length header\n";
    if (heads.encodings > 0 || heads.body)
        return "the request has a body, which a GET or HEAD has no use for here\n";
    return NULL;
}
