//TEST long=1 timeout=900
//LINK -Wl,--wrap=zr_engine_resume,--wrap=fsync
/* The tests of test_train_resume.c, with ten steps after each checkpoint. */
#define STEPS_AFTER 10
#include "test_train_resume.c"
