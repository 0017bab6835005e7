/**
 * Records of an event file that TensorBoard reads: protocol buffers of type Event in TFRecord framing (formats:
 * TensorFlow's tfrecord; event.proto and summary.proto of TensorBoard).
 */
#ifndef ZR_TRAIN_EVENTS_H
#define ZR_TRAIN_EVENTS_H

#include "train/dir/metrics.h"

/** Maximum length of a record in bytes. */
#define ZR_EVENT_BYTES 2048
/** Size of a buffer for an event file's name, in bytes. */
#define ZR_EVENTS_NAME_BYTES 160
#define ZR_EVENTS_PREFIX "events.out.tfevents."

/** Write the record that begins an event file, and return its length in bytes. wall_sec, in this function and the
 * functions below, is in seconds since 1970. */
int zr__event_version(double wall_sec, char record[ZR_EVENT_BYTES]);
/** Write a SessionLog START record, with which a run resumes at `step`, and return its length. The record makes
 * TensorBoard drop the data that earlier files hold for `step` and later steps. */
int zr__event_start(double wall_sec, int64_t step, char record[ZR_EVENT_BYTES]);
/** Write a record with n scalars of a step, each tagged group/name, and return its length. */
int zr__event_scalars(double wall_sec, int64_t step, const char *group, const zr__scalar *scalar, int n,
                      char record[ZR_EVENT_BYTES]);

/** Return the current time, in seconds since 1970. */
double zr__event_now(void);
/** Choose a name for a new event file in a folder. It sorts after the names of the existing event files, because
 * TensorBoard reads files in the order of their names. */
void zr__events_name(const char *folder, char name[ZR_EVENTS_NAME_BYTES]);

#endif
