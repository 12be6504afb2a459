#define CORPUS "pattern"
#include "../../fuzz/fuzz_pattern.c"
#include "../../fuzz/replay.h"
