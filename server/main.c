#include <stdio.h>

int main(void)
{
    return puts("deltaq") < 0;
}
