/* endpoints.c - splits the list and asks the resolver. */
#include "endpoints.h"

#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static bool endpoints_have(const struct endpoints *endpoints, const char *text)
{
    for (size_t i = 0; i < endpoints->count; i++)
        if (strcmp(endpoints->texts[i], text) == 0)
            return true;
    return false;
}

/* False without memory or room. */
static bool endpoints_add(struct endpoints *endpoints, const char *text)
{
    if (endpoints_have(endpoints, text))
        return true;
    char *copy = endpoints->count < ENDPOINTS_MAX ? strdup(text) : NULL;
    if (copy)
        endpoints->texts[endpoints->count++] = copy;
    return copy != NULL;
}

bool endpoint_port_fits(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    if (strncasecmp(endpoint, "tcp://", 6) != 0 || !colon || colon[1 + strspn(colon + 1, "0123456789")] != '\0')
        return true;
    return strlen(colon + 1) < 10 && strtoul(colon + 1, NULL, 10) <= UINT16_MAX;
}

static enum pen_status entry_add(struct endpoints *endpoints, const char *from, size_t bytes, struct pen_error *reterr)
{
    char text[ENDPOINTS_ONE_BYTES_MAX + 1];
    for (; bytes > 0 && (*from == ' ' || *from == '\t'); bytes--)
        from++;
    while (bytes > 0 && (from[bytes - 1] == ' ' || from[bytes - 1] == '\t'))
        bytes--;
    if (bytes > ENDPOINTS_ONE_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "broker endpoint \"%.40s...\" has more than %u bytes.", from,
                             ENDPOINTS_ONE_BYTES_MAX);
    memcpy(text, from, bytes);
    text[bytes] = '\0';
    if (!strstr(text, "://") || strlen(text) != bytes)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "broker endpoint \"%s\" must look like tcp://127.0.0.1:5550 or ipc:///run/penstock; "
                             "several are separated by commas.",
                             text);
    if (!endpoint_port_fits(text))
        return pen_error_set(reterr, PEN_ERR_INVALID, "broker endpoint \"%s\": a port is a number from 1 to %u.", text,
                             UINT16_MAX);
    if (endpoints->count == ENDPOINTS_MAX && !endpoints_have(endpoints, text))
        return pen_error_set(reterr, PEN_ERR_INVALID, "a list of brokers has at most %u entries; \"%s\" is beyond.",
                             ENDPOINTS_MAX, text);
    if (!endpoints_add(endpoints, text))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the list of brokers.");
    return PEN_OK;
}

enum pen_status endpoints_parse(const char *list, struct endpoints *ret_endpoints, struct pen_error *reterr)
{
    struct endpoints endpoints = {0};
    enum pen_status status = PEN_OK;
    if (strnlen(list, ENDPOINTS_BYTES_MAX + 1) > ENDPOINTS_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "a list of brokers has at most %u bytes.", ENDPOINTS_BYTES_MAX);
    for (const char *from = list; from && status == PEN_OK;) {
        const char *comma = strchr(from, ',');
        status = entry_add(&endpoints, from, comma ? (size_t)(comma - from) : strlen(from), reterr);
        from = comma ? comma + 1 : NULL;
    }
    if (status != PEN_OK)
        endpoints_fini(&endpoints);
    else
        *ret_endpoints = endpoints;
    return status;
}

/* Splits tcp://host:port; false for everything else, and for "*" and numbers that need no resolver. */
static bool host_split(const char *text, char host[ENDPOINTS_ONE_BYTES_MAX + 1], const char **ret_port)
{
    const char *colon = strrchr(text, ':');
    if (strncmp(text, "tcp://", 6) != 0 || colon <= text + 6 || strpbrk(text + 6, "[*;/"))
        return false;
    size_t bytes = (size_t)(colon - text) - 6;
    memcpy(host, text + 6, bytes);
    host[bytes] = '\0';
    *ret_port = colon + 1;
    return host[strspn(host, "0123456789.")] != '\0';
}

/* False: no memory. An address for which there is no room is left out. */
static bool endpoints_take(struct endpoints *endpoints, const char *text)
{
    return endpoints_add(endpoints, text) || endpoints->count == ENDPOINTS_MAX;
}

static bool addresses_take(struct endpoints *to, const struct addrinfo *found, const char *port)
{
    bool whole = true;
    for (const struct addrinfo *one = found; one && whole; one = one->ai_next) {
        char number[NI_MAXHOST], text[NI_MAXHOST + 32];
        if (getnameinfo(one->ai_addr, one->ai_addrlen, number, sizeof number, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        snprintf(text, sizeof text, strchr(number, ':') ? "tcp://[%s]:%.16s" : "tcp://%s:%.16s", number, port);
        whole = endpoints_take(to, text);
    }
    return whole;
}

/* IPv4, unless the name has only IPv6 addresses: ZeroMQ's sockets use IPv6 only when told to. */
static bool name_resolve(struct endpoints *to, const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool whole = true;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return true;
    if (found && found->ai_next)
        whole = addresses_take(to, found, port);
    freeaddrinfo(found);
    return whole;
}

enum pen_status endpoints_resolve(struct endpoints *endpoints, enum endpoint_names names, struct pen_error *reterr)
{
    struct endpoints resolved = {0};
    bool whole = true;
    for (size_t i = 0; i < endpoints->count && whole; i++) {
        char host[ENDPOINTS_ONE_BYTES_MAX + 1];
        const char *port;
        size_t before = resolved.count;
        if (host_split(endpoints->texts[i], host, &port))
            whole = name_resolve(&resolved, host, port);
        if (whole && resolved.count == before)
            whole = endpoints_take(&resolved, endpoints->texts[i]);
    }
    for (size_t i = 0; names == ENDPOINT_NAMES_KEPT && whole && i < endpoints->count; i++)
        whole = endpoints_take(&resolved, endpoints->texts[i]);
    endpoints_fini(whole ? endpoints : &resolved);
    if (!whole)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the list of brokers.");
    *endpoints = resolved;
    return PEN_OK;
}

void endpoints_fini(struct endpoints *endpoints)
{
    for (size_t i = 0; i < endpoints->count; i++)
        free(endpoints->texts[i]);
    *endpoints = (struct endpoints){0};
}
