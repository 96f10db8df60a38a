#include "http_side.h"

#include <string.h>

#include "deadline.h"

#define CONNECTIONS_SPARE                                                                                              \
    16u /* added to libmicrohttpd's own limit: it counts an ended connection a little longer than we do */
#define REQUEST_BYTES (16u * 1024u)
#define IDLE_S        10u /* a connection that says nothing */
#define STACK_BYTES   (256u * 1024u)
#define BEGIN_US      2000000u /* a connection that was handed over has begun by then, or never will */

/* Leaves %XX as it is: pages decode the parts that they need. */
static size_t leave_escaped(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

enum pen_status side_open(struct side *side, MHD_AccessHandlerCallback on_request, struct post *post)
{
    unsigned most = side->max + CONNECTIONS_SPARE;
    side->patience = patience_new(post, most);
    if (!side->patience)
        return PEN_ERR_IO;
    side->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
            MHD_USE_NO_LISTEN_SOCKET,
        0, NULL, NULL, on_request, side, MHD_OPTION_CONNECTION_LIMIT, most, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)REQUEST_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_NOTIFY_CONNECTION, patience_notify,
        side->patience, MHD_OPTION_NOTIFY_COMPLETED, patience_asks, side->patience, MHD_OPTION_END);
    return side->daemon ? PEN_OK : PEN_ERR_IO;
}

void side_close(struct side *side)
{
    if (side->daemon)
        MHD_stop_daemon(side->daemon);
    patience_free(side->patience);
    *side = (struct side){.daemon = NULL};
}

/* Connections that were handed over and have not begun yet count, too. */
static bool has_room(struct side *side, uint64_t address)
{
    struct patience_count count = patience_count(side->patience, address);
    uint64_t now_us = clock_now_us();
    if (side->handed != count.begun && now_us - side->handed_us > BEGIN_US)
        side->handed = count.begun;
    uint64_t coming = side->handed > count.begun ? side->handed - count.begun : 0;
    return count.held + coming < side->max && count.same + coming < side->address_max;
}

enum http_entry_verdict side_take(struct side *side, const struct http_entry_guest *guest)
{
    const struct sockaddr *address = (const struct sockaddr *)&guest->address;
    if (!has_room(side, patience_address(address))) {
        patience_make_room(side->patience);
        return HTTP_ENTRY_LATER;
    }
    side->handed++;
    side->handed_us = clock_now_us();
    MHD_add_connection(side->daemon, guest->fd, address, guest->address_bytes); /* closes it where that fails */
    return HTTP_ENTRY_TAKEN;
}
