#include "address_table.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct address_count {
    struct address_count *next;
    uint64_t address;
    unsigned count;
};

uint64_t address_key(const struct sockaddr_storage *address)
{
    uint64_t halves[2] = {0, 0};
    if (address->ss_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    if (address->ss_family == AF_INET6)
        memcpy(halves, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof halves);
    return halves[0] ? halves[0] : halves[1];
}

bool address_is_local(const struct sockaddr_storage *address)
{
    static const unsigned char mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->ss_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(six) || memcmp(six, mapped, sizeof mapped) == 0);
}

static struct address_count **address_slot(struct address_table *table, uint64_t address)
{
    struct address_count **slot = &table->slots[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
    while (*slot && (*slot)->address != address)
        slot = &(*slot)->next;
    return slot;
}

bool address_add(struct address_table *table, uint64_t address, unsigned *ret_count)
{
    struct address_count **slot = address_slot(table, address);
    if (!*slot && !(*slot = calloc(1, sizeof **slot)))
        return false;
    (*slot)->address = address;
    *ret_count = ++(*slot)->count;
    return true;
}

void address_remove(struct address_table *table, uint64_t address)
{
    struct address_count **slot = address_slot(table, address), *found = *slot;
    if (!found || --found->count > 0)
        return;
    *slot = found->next;
    free(found);
}
