#define CORPUS "transfer_head"
#include "../../fuzz/fuzz_transfer_head.c"
#include "../../fuzz/replay.h"
