/* A run that a test starts, stops after some steps and resumes, and everything that it reported. */
#ifndef TOLD_RUN_H
#define TOLD_RUN_H

#include <stdio.h>
#include <string.h>

#include "zr/comm.h"
#include "zr/config.h"
#include "zr/run.h"

enum { STEPS = 40, KEYS = 24, NOTES = 8192, MESSAGE = 2048 };

/* The outcome of a run, reported by rank 0. */
typedef struct told {
    zr_status status;
    char message[MESSAGE], notes[NOTES];
    zr_train_step step[STEPS];
    int steps;
    uint64_t state; /* a hash of the states resumed from: every element of every state with its position */
    zr_train_result result;
} told;

static void on_step(void *arg, const zr_train_step *step)
{
    told *t = arg;
    assert_true(t->steps < STEPS);
    t->step[t->steps++] = *step;
}

static void on_note(void *arg, const char *text)
{
    told *t = arg;
    size_t used = strlen(t->notes);
    snprintf(t->notes + used, sizeof t->notes - used, "%s\n", text);
}

/* Number of steps after which this process stops; 0: it does not stop early. */
static int stop_after;

static bool on_stop(void *arg)
{
    const told *t = arg;
    return stop_after > 0 && t->steps >= stop_after;
}

typedef struct job {
    told *told;
    zr_config *config;
    bool resume;
} job;

static zr_status train_rank(zr_comm *comm, void *arg)
{
    job *j = arg;
    static const zr_observer none = {0};
    zr_observer observer = {.arg = j->told, .step = on_step, .note = on_note, .stop = on_stop};
    zr_train_result result = {0};
    zr_status st =
        (j->resume ? zr_train_resume : zr_train_run)(j->config, comm, comm->rank == 0 ? &observer : &none, &result);
    if (comm->rank == 0) {
        j->told->result = result;
        snprintf(j->told->message, MESSAGE, "%s", st == ZR_OK ? "" : zr_error_message());
    }
    return st;
}

#endif
