/* redis_place.h - where a Redis is, and the user and password for it. Plain data. */
#ifndef REDIS_PLACE_H
#define REDIS_PLACE_H

struct redis_place {
    char host[256];
    int port, database;
    char user[128], password[256]; /* password "": none; user "": Redis' default one */
    const char
        *password_file; /* borrowed: read again for each connection, so that a password can be changed; NULL = none */
};

#endif
