#define CORPUS "json_body"
#include "../../fuzz/fuzz_json_body.c"
#include "../../fuzz/replay.h"
