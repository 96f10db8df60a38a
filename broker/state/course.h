/*
 * course.h - two tables of functions by which kinds of jobs differ: how a job runs (its course, by its model) and who is told its end (its owner).
 *
 * lifecycle/ moves jobs through their states and asks these tables where a kind differs; it names no kind. A new kind is one file with one table, and one row
 * where broker_init (courses) or who makes the job (owners) names it.
 * Threads: owner.
 */
#ifndef COURSE_H
#define COURSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

struct broker;
struct ending;
struct explained_step;
struct job;
struct result_group;
struct shared_message;
struct worker;

/* How the jobs of a model run. A member that is NULL does what a plain job does. None of them may end another job: what follows is an effect (effect.h). */
struct job_course {
    const char *name;
    /* The job waits, in no lane: true = it goes its own way from here (JOB_STEPS). */
    bool (*begin)(struct broker *broker, struct job *job);
    /* It leaves JOB_STEPS or JOB_HELD. next: who takes over what runs, out of all lists; NULL: nobody. */
    void (*leave)(struct broker *broker, struct job *job, struct job *next);
    /* It (JOB_STEPS) is as urgent as that. */
    void (*raise)(struct broker *broker, struct job *job, uint8_t priority);
    /* It (JOB_STEPS) has another client, turn or deadline. */
    void (*moved)(struct broker *broker, struct job *job);
    /* It was given to that worker. */
    void (*dispatched)(struct broker *broker, struct job *job, const struct worker *worker);
    /* Its run is void. True: it was answered, for it cannot run again. */
    bool (*requeue)(struct broker *broker, struct job *job, bool suspect);
    /* It is about to be answered; its request is there still. */
    void (*ending)(struct broker *broker, struct job *job, enum pen_status status);
    /* It (JOB_STEPS) has been answered. */
    void (*release)(struct broker *broker, struct job *job);
    /* Where its steps (JOB_STEPS) are: in a sentence, and as figures with room for ENSEMBLE_PLAN_STEPS_MAX; the number of those. */
    const char *(*text)(const struct job *job, char *text, size_t bytes);
    size_t (*explain)(const struct broker *broker, const struct job *job, struct explained_step *ret_steps);
};

enum course_kind { COURSE_PLAIN, COURSE_ENSEMBLE, COURSE_SEQUENCE, COURSE_COUNT };

/* Rows of broker->owners. Behind the last there is room for kinds that tests add. */
enum job_owner_kind { OWNER_CLIENT, OWNER_STEP, OWNER_DETACHED, OWNER_COUNT, OWNERS_MAX = 16 };

/* Who is told a job's end. */
struct job_owner {
    const char *name;
    bool part; /* its jobs are parts of one that a client sent: that one is counted and pays, these do not */
    /* A result that is not the last one (FRAME_FLAG_PARTIAL); the job goes on. NULL: it is dropped. */
    void (*result)(struct broker *broker, struct job *job, struct result_group *group);
    /*
     * The one end of the job. Takes the reply (NULL: there was no memory for it). Calls answer_retire, and takes the job out of its session and frees it unless
     * the reply is kept there.
     */
    void (*ended)(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                  const struct ending *ending);
    /* The job that a client sent, where this one is a part of it; NULL: it is one itself. */
    const struct job *(*whole)(const struct broker *broker, const struct job *job);
};

/* Whether it is a part of a job that a client sent. */
bool job_is_part(const struct broker *broker, const struct job *job);
/* The course of a job in its present state. */
const struct job_course *job_course(const struct broker *broker, const struct job *job);
/* The job that a client sent. */
const struct job *job_whole(const struct broker *broker, const struct job *job);

#endif
