/*
 * course.h - two tables of functions for what differs between kinds of jobs: how a job runs (its course, chosen by its
 * model) and who is told its end (its owner). lifecycle/ moves jobs through their states and calls these tables where
 * kinds differ; it names no kind.
 *
 * A new kind is one file with one table. broker_init names a new course; the code that makes the job names a new owner.
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

/* Whether the job itself may have caused the end of its run. */
enum blame {
    BLAME_NONE,    /* no: the worker lives, left in order, or had begun nothing; the run does not count as an attempt */
    BLAME_SUSPECT, /* the worker died while it held the job */
};

/* How the jobs of a model run. Where a member is NULL, the job runs like a plain job. No member may end another job:
   it posts an effect for that (effect.h). */
struct job_course {
    const char *name;
    /* The job waits and is in no lane yet. True = it runs in its own way from here (JOB_STEPS). */
    bool (*begin)(struct broker *broker, struct job *job);
    /* The job leaves JOB_STEPS or JOB_HELD. next: the job, out of all lists, that takes over the steps that run;
       NULL: none. */
    void (*leave)(struct broker *broker, struct job *job, struct job *next);
    /* The job (JOB_STEPS) is now at least that urgent. */
    void (*raise)(struct broker *broker, struct job *job, uint8_t priority);
    /* The job (JOB_STEPS) has another client, turn or deadline now. */
    void (*moved)(struct broker *broker, struct job *job);
    /* The job was sent to that worker. */
    void (*dispatched)(struct broker *broker, struct job *job, const struct worker *worker);
    /* The job's run is void. True: the job was answered, because it cannot run again. */
    bool (*requeue)(struct broker *broker, struct job *job, enum blame blame);
    /* The job is about to be answered; it still has its request. */
    void (*ending)(struct broker *broker, struct job *job, enum pen_status status);
    /* The job (JOB_STEPS) has been answered. */
    void (*release)(struct broker *broker, struct job *job);
    /* How far its steps (JOB_STEPS) are: as a sentence, and as an array with room for ENSEMBLE_PLAN_STEPS_MAX, whose
       count is returned. */
    const char *(*text)(const struct job *job, char *text, size_t bytes);
    size_t (*explain)(const struct broker *broker, const struct job *job, struct explained_step *ret_steps);
};

enum course_kind { COURSE_PLAIN, COURSE_ENSEMBLE, COURSE_SEQUENCE, COURSE_COUNT };

/* Index into broker->owners. Tests may add kinds behind the last one. */
enum job_owner_kind {
    OWNER_CLIENT,
    OWNER_STEP,
    OWNER_DETACHED,
    OWNER_SHADOW,
    OWNER_HANDED,
    OWNER_COUNT,
    OWNERS_MAX = 16
};

/* Who is told a job's end. */
struct job_owner {
    const char *name;
    bool part;  /* its jobs are parts of a job that a client sent; only the client's job is counted and pays */
    bool moves; /* its jobs go on at another broker: here they are neither done nor failed */
    /* A partial result (FRAME_FLAG_PARTIAL); the job goes on. NULL: it is dropped. */
    void (*result)(struct broker *broker, struct job *job, struct result_group *group);
    /*
     * The job has ended; called once per job. Takes the reply (NULL: there was no memory for it). Calls answer_retire,
     * takes the job out of its session, and frees it unless the session keeps the reply.
     */
    void (*ended)(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                  const struct ending *ending);
    /* The client's job that this job is a part of; NULL: it is no part. */
    const struct job *(*whole)(const struct broker *broker, const struct job *job);
};

/* True when the job is a part of a job that a client sent. */
bool job_is_part(const struct broker *broker, const struct job *job);
/* The course of a job in its present state. */
const struct job_course *job_course(const struct broker *broker, const struct job *job);
/* The job that the client sent: the job itself, or the one that it is a part of. */
const struct job *job_whole(const struct broker *broker, const struct job *job);

#endif
