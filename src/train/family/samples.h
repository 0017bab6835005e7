/** The samples on which a model is trained or evaluated, as rows of batches: windows of tokens with their targets for a
 * decoder; sentence pairs, labelled texts or questions for an encoder (zr_samples). */
#ifndef ZR_TRAIN_SAMPLES_H
#define ZR_TRAIN_SAMPLES_H

#include "train/family/family.h"

/** Rows that a program makes (zr_source): of the current training step, or all for evaluations. */
typedef struct zr__made_rows {
    const zr_source *source; /* or NULL */
    int64_t seq, vocabulary;
    int64_t first, n; /* the samples of the arrays below; n is 0 before the first step */
    const int32_t *tokens, *targets;
    int64_t stride; /* elements between the beginnings of two rows */
} zr__made_rows;

/** Open data of one kind. The other members are NULL; all are NULL if nothing is open. */
typedef struct zr__samples {
    zr_samples kind;
    zr_data *tokens;
    zr_pairs *pairs;
    zr_labelled *labelled; /* labelled texts, or questions */
    zr__made_rows made;
} zr__samples;

/** Set the fields of a layout that depend on the inputs of a model's graphs: documents, predictions and samples.
 * layout->seq must be set. `config` may be NULL, for the sizes that zr__pairs_keys sets without a configuration. */
void zr__samples_layout(zr_samples kind, const zr_config *config, zr_layout *layout);

/** Return the number of predictions of a row of `seq` tokens by Google's rule for BERT: 15 % of the tokens, rounded up,
 * which is 20 of 128 and 77 of 512. */
int64_t zr__pairs_predictions(int64_t seq);

/** Set the options of zr_pairs_open from a configuration. If the configuration is NULL, set the defaults of its keys,
 * but predictions to zr__pairs_predictions(args->seq_length). */
void zr__pairs_keys(const zr_config *config, zr_pairs_args *args);
/** Set the options of zr_labelled_open that come from a configuration, or from the defaults of its keys if it is NULL.
 */
void zr__labelled_keys(const zr_config *config, zr_labelled_args *args);

/** Return the kind of labelled samples. */
zr_labelled_kind zr__labelled_kind(zr_samples kind);
/** Divide a text of n names, one on each line, into an array in one allocation, for zr_free. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__names_split(const char *lines, int64_t n, const char ***names);
/** Open labelled texts, questions or tagged sentences. Take the names of labels from `given`, one on each line, or if
 * it is NULL from config.json in `dir`, which may be NULL. */
ZR_NODISCARD zr_status zr__labelled_open(zr_labelled_args *args, const char *given, const char *dir,
                                         zr_labelled **labelled);

/** Return the part of data.train on which a run trains, or with `held_out` the part that data.val holds out of it. */
zr_data_part zr__samples_part(const zr_config *config, bool held_out);
/** Open data.train in the order data.order or, with `val`, the data of evaluations: data.val, or the part of data.train
 * that it holds out. `first` and `progress` are as in zr__inputs_open. */
ZR_NODISCARD zr_status zr__samples_open(const zr_config *config, bool val, bool first, zr_progress_fn progress,
                                        void *arg, zr__samples *samples);
/** Take the program's samples, config->data.source or config->data.val_source, in place of a file. Errors:
 * ZR_ERR_CONFIG if a file is given too; ZR_ERR_DATA if there are no samples for evaluations; ZR_ERR_UNSUPPORTED for
 * encoders and for rows of several documents. */
ZR_NODISCARD zr_status zr__samples_take_source(const zr_config *config, const zr_source *source, zr__samples *samples);
/** Begin a training step with samples [first, first+n): ask a program for its rows. For other data do nothing. */
ZR_NODISCARD zr_status zr__samples_begin(zr__samples *samples, int64_t first, int64_t n);
void zr__samples_close(zr__samples *samples);
bool zr__samples_are_open(const zr__samples *samples);

/** Return facts about the data. For an encoder, a window is a row. */
zr_data_info zr__samples_info(const zr__samples *samples);
/** Return the size of data in the units that a share holds out. *unit (unless NULL) receives their plural name. */
int64_t zr__samples_units(const zr__samples *samples, const char **unit);
enum { ZR__HELD_OUT_BYTES = 192 };
/** Write how much data.val, a share, holds out: "data.val 0.05: 260 records of data.train are held out". Return
 * `words`.
 */
const char *zr__samples_held_out(const zr_config *config, const zr__samples *val, char words[ZR__HELD_OUT_BYTES]);
/** Return whether reading samples takes so long that a thread should read ahead: samples are made from texts, or data
 * exceed ZR_TRAIN_AHEAD_BYTES. */
bool zr__samples_take_time(const zr__samples *samples);
/** Return the bytes of memory that open data need, in addition to a plan. */
int64_t zr__samples_memory_bytes(const zr__samples *samples);
/** Read all data once and hash them, like zr__data_check. */
ZR_NODISCARD zr_status zr__samples_check(const zr__samples *samples, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Read sample `index` of the order for training, or window `index` for an evaluation. Both are a zr__data_fn whose
 * source is a zr__samples. */
zr_status zr__samples_read(void *samples, int64_t index, const zr__row *row);
zr_status zr__samples_window(void *samples, int64_t index, const zr__row *row);

/* ---- rows of training batches (rows_ahead.c) ------------------------------------------------------------------ */

typedef struct zr__rows_ahead zr__rows_ahead;

/** Return how many rows of a plan's training step a thread should read ahead: the rows of a micro-batch, but at most
 * 4 MiB. A model with several loss terms needs all rows of this rank's step, since their losses are counted before the
 * step. Return 0 if these rows are too large. *bytes receives the memory that the rows take. */
int64_t zr__rows_ahead_room(const zr_plan *plan, int64_t *bytes);

/** Prepare to read rows. If `room` is above 0, start a thread that reads ahead, with memory for `room` rows. After the
 * first call of zr__rows_ahead_want, only this object may use `samples`. `samples` and `plan` must outlive it. Error:
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__rows_ahead_create(zr__samples *samples, const zr_plan *plan, int64_t room,
                                             zr__rows_ahead **ahead);
void zr__rows_ahead_destroy(zr__rows_ahead **ahead);

/** Read ahead from sample `first` on, where a micro-batch of this rank begins. The micro-batches of all ranks together
 * have `stride` samples. */
void zr__rows_ahead_want(zr__rows_ahead *ahead, int64_t first, int64_t stride);

/** Read the row of sample `index` into row `row` of a micro-batch's inputs, as zr__samples_read does. */
ZR_NODISCARD zr_status zr__rows_ahead_read(zr__rows_ahead *ahead, int64_t index, int64_t row, void *const *input);
/** Subtract the losses of sample `index` that do not count from `counted`. A later read of the sample finds the row
 * in memory if it was read ahead. */
ZR_NODISCARD zr_status zr__rows_ahead_count(zr__rows_ahead *ahead, int64_t index, int64_t *counted);

#endif
