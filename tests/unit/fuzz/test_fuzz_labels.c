#define CORPUS "labels"
#include "../../fuzz/fuzz_labels.c"
#include "../../fuzz/replay.h"
