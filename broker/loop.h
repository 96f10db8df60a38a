/*
 * loop.h - the one thread: drain both ROUTERs, run what is due, spin a little, then sleep.
 * Threads: owner.
 */
#ifndef LOOP_H
#define LOOP_H

#include "broker.h"

/* Runs until drained (PEN_OK) or until a second signal (PEN_ERR_CANCELLED). `signals` is a signalfd of SIGTERM,
   SIGINT and SIGHUP; SIGHUP never counts as the second signal. */
enum pen_status loop_run(struct broker *broker, int signals);

/* How many CPUs this process may use: affinity and cgroup quota, rounded down, at least 1. */
unsigned loop_cpus(void);

#endif
