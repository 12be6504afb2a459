#include "cli/command.h"

#include <stddef.h>

#ifndef DELTAQ_COMMIT /* given by the Makefile where git and a work tree are there */
#define DELTAQ_COMMIT NULL
#endif

int main(int argc, char **argv)
{
    return command_main(argc, argv, DELTAQ_COMMIT);
}
