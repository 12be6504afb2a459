#define CORPUS "request_head"
#include "../../fuzz/fuzz_request_head.c"
#include "../../fuzz/replay.h"
