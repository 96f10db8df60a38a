/*
 * client_ref.h - who holds a client: its handle, and each job until its last handle is gone (core.c).
 *
 * Threads: any.
 */
#ifndef CLIENT_REF_H
#define CLIENT_REF_H

struct pen_client;

struct pen_client *client_retain(struct pen_client *client);
void client_release(struct pen_client *client); /* the last one frees it */

#endif
