#define CORPUS "head_guard"
#include "../../fuzz/fuzz_head_guard.c"
#include "../../fuzz/replay.h"
