/*
 * address_table.h - how many connections each address has.
 * Threads: one-at-a-time.
 */
#ifndef ADDRESS_TABLE_H
#define ADDRESS_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_SLOTS 4096u

struct address_count;
struct address_table {
    struct address_count *slots[ADDRESS_SLOTS];
};

/* Of IPv6 the network, all of which one host may have for itself; what is mapped from IPv4 has none. */
uint64_t address_key(const struct sockaddr_storage *address);
bool address_is_local(const struct sockaddr_storage *address); /* loopback */

/* *ret_count: with this one. False without memory. An address is forgotten with its last connection. */
bool address_add(struct address_table *table, uint64_t address, unsigned *ret_count);
void address_remove(struct address_table *table, uint64_t address);

#endif
