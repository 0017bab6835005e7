/** Names of the files and folders in a run's directory; a checkpoint's is zr_checkpoint_name's, an event file's
 * zr__events_name's. */
#ifndef ZR_TRAIN_RUN_FILES_H
#define ZR_TRAIN_RUN_FILES_H

#define ZR_RUN_CONFIG "config.json"        /* the resolved configuration; also the model's, in a directory of weights */
#define ZR_RUN_METRICS "metrics.jsonl"     /* a line for each step, evaluation and sample */
#define ZR_RUN_REPORT "run.json"           /* planned and measured numbers, written at the end */
#define ZR_RUN_LOCK "lock"                 /* exists while a process holds the directory */
#define ZR_RUN_LATEST "latest"             /* the name of the newest checkpoint, for other programs */
#define ZR_RUN_PICTURE "loss.svg"          /* drawn by an observer of the run */
#define ZR_RUN_MODEL "model"               /* the weights at the end */
#define ZR_RUN_MODEL_NEW "model.tmp"       /* the same in progress; may hold complete weights */
#define ZR_RUN_MODEL_OLD "model.old"       /* earlier weights while they are replaced, and files of the user */
#define ZR_RUN_BEST "best"                 /* the weights with the lowest val_loss, with train.keep_best */
#define ZR_RUN_WEIGHTS "model.safetensors" /* the weights' file in these directories */
#define ZR_TRAINED_NAME "trained.json"     /* step and loss of the weights (trained.h) */

#endif
