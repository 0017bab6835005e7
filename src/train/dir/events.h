/**
 * Records of a TensorBoard event file. Each record is a protocol buffer of type Event in TFRecord framing. TensorFlow's
 * tfrecord defines the framing, and TensorBoard's event.proto and summary.proto define the content.
 */
#ifndef ZR_TRAIN_EVENTS_H
#define ZR_TRAIN_EVENTS_H

#include "train/dir/metrics.h"

/** Maximum length of a record in bytes. */
#define ZR_EVENT_BYTES (2048 + ZR_NAME_MAX * ZR_LOSS_TERMS)
/** Size of a buffer for an event file's name, in bytes. */
#define ZR_EVENTS_NAME_BYTES 160
#define ZR_EVENTS_PREFIX "events.out.tfevents."

/** Write the first record of an event file, and return its length in bytes. wall_sec is the time in seconds since 1970,
 * also in the functions below. */
int zr__event_version(double wall_sec, char record[ZR_EVENT_BYTES]);
/** Write a SessionLog START record, and return its length in bytes. The record marks that a run resumes at `step`.
 * TensorBoard then drops the data that earlier files have for `step` and later steps. */
int zr__event_start(double wall_sec, int64_t step, char record[ZR_EVENT_BYTES]);
/** Write a record with n scalars of a step, and return its length in bytes. The tag of a scalar is group/name. */
int zr__event_scalars(double wall_sec, int64_t step, const char *group, const zr__scalar *scalar, int n,
                      char record[ZR_EVENT_BYTES]);

/** Return the current time, in seconds since 1970. */
double zr__event_now(void);
/** Choose a name for a new event file in a folder. The name sorts after the names of existing event files, because
 * TensorBoard reads files in name order. */
void zr__events_name(const char *folder, char name[ZR_EVENTS_NAME_BYTES]);

#endif
