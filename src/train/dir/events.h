/**
 * Records of an event file, as TensorBoard reads it: TFRecord framing around protocol buffers of the type Event
 * (TensorFlow's tfrecord format; event.proto and summary.proto of TensorBoard).
 */
#ifndef ZR_TRAIN_EVENTS_H
#define ZR_TRAIN_EVENTS_H

#include "train/dir/metrics.h"

/** Bytes of a record at most. */
#define ZR_EVENT_BYTES 2048
/** Bytes of an event file's name at most. */
#define ZR_EVENTS_NAME_BYTES 160
#define ZR_EVENTS_PREFIX "events.out.tfevents."

/** Write the record with which a file begins; its length in bytes. wall_sec, here and below: seconds since 1970. */
int zr__event_version(double wall_sec, char record[ZR_EVENT_BYTES]);
/** Write the record of a run that goes on with `step`: its reader forgets what earlier files hold of that step and of
 * later ones (a SessionLog START). Its length. */
int zr__event_start(double wall_sec, int64_t step, char record[ZR_EVENT_BYTES]);
/** Write the record of n scalars of a step, under the tags group/name; its length. */
int zr__event_scalars(double wall_sec, int64_t step, const char *group, const zr__scalar *scalar, int n,
                      char record[ZR_EVENT_BYTES]);

/** Give the time of now, in seconds since 1970. */
double zr__event_now(void);
/** Name a new file of a folder: it sorts behind those that are there, since the reader takes files in the order of
 * their names. */
void zr__events_name(const char *folder, char name[ZR_EVENTS_NAME_BYTES]);

#endif
