#define CORPUS "zip"
#include "../../fuzz/fuzz_zip.c"
#include "../../fuzz/replay.h"
