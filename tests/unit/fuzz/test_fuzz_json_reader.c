#define CORPUS "json_reader"
#include "../../fuzz/fuzz_json_reader.c"
#include "../../fuzz/replay.h"
