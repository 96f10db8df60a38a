#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static enum pen_status bad_address(const char *address, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "--http %s is no address; one looks like 127.0.0.1:8002 or [::1]:8002 (port * lets the system "
                         "choose), or it is none",
                         address);
}

enum pen_status address_parse(const char *address, struct sockaddr_storage *ret_socket, socklen_t *ret_size,
                              struct pen_error *reterr)
{
    char host[64];
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    bool six = length > 2 && address[0] == '[' && address[length - 1] == ']';
    if (length == 0 || length >= sizeof host)
        return bad_address(address, reterr);
    snprintf(host, sizeof host, "%.*s", (int)(six ? length - 2 : length), address + (six ? 1 : 0));
    char *end;
    long port = strcmp(colon + 1, "*") == 0 ? 0 : strtol(colon + 1, &end, 10);
    if (strcmp(colon + 1, "*") != 0 && (*end || port < 1 || port > 65535))
        return bad_address(address, reterr);
    *ret_socket = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)ret_socket;
    struct sockaddr_in6 *sixth = (struct sockaddr_in6 *)(void *)ret_socket;
    if (six ? inet_pton(AF_INET6, host, &sixth->sin6_addr) != 1 : inet_pton(AF_INET, host, &four->sin_addr) != 1)
        return bad_address(address, reterr);
    ret_socket->ss_family = six ? AF_INET6 : AF_INET;
    if (six)
        sixth->sin6_port = htons((uint16_t)port);
    else
        four->sin_port = htons((uint16_t)port);
    *ret_size = six ? sizeof *sixth : sizeof *four;
    return PEN_OK;
}

bool address_host_local(const char *host)
{
    size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    const char *port = length <= strlen(host) ? host + length : "?";
    if (*port && (*port != ':' || strspn(port + 1, "0123456789*") != strlen(port + 1)))
        return false; /* "127.0.0.1:80, evil.example"; * is the port of --http that the system chooses */
    if (length == 9 && strncasecmp(host, "localhost", 9) == 0)
        return true;
    if (length == 5 && strncmp(host, "[::1]", 5) == 0)
        return true;
    return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == length;
}

static bool split(const char *url, struct collector_address *to)
{
    static const char scheme[] = "http://";
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *host = url + sizeof scheme - 1;
    bool six = *host == '[';
    size_t host_bytes = six ? strcspn(host, "]") : strcspn(host, ":/");
    const char *colon = host + host_bytes + (six && host[host_bytes] ? 1 : 0);
    size_t port_bytes = *colon == ':' ? strspn(colon + 1, "0123456789") : 0;
    const char *path = colon + 1 + port_bytes;
    long port = port_bytes && port_bytes < sizeof to->port ? strtol(colon + 1, NULL, 10) : 0;
    host += six;
    host_bytes -= six;
    if (host_bytes == 0 || host_bytes >= sizeof to->host || port < 1 || port > 65535 || (*path && *path != '/') ||
        strlen(path) >= sizeof to->path || strpbrk(path, " \r\n"))
        return false;
    snprintf(to->host, sizeof to->host, "%.*s", (int)host_bytes, host);
    snprintf(to->port, sizeof to->port, "%ld", port);
    snprintf(to->path, sizeof to->path, "%s", path[0] && path[1] ? path : "/v1/traces");
    return true;
}

enum pen_status address_collector(const char *url, struct collector_address *ret_address, struct pen_error *reterr)
{
    struct collector_address address;
    if (split(url, &address)) {
        *ret_address = address;
        return PEN_OK;
    }
    return pen_error_set(
        reterr, PEN_ERR_INVALID,
        "--trace-otlp %s: it must be http://HOST:PORT or http://HOST:PORT/PATH, or none; for TLS run a "
        "collector on this machine",
        url);
}
