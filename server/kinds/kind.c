#include "kinds/kind.h"

#include <stdlib.h>
#include <string.h>

void kind_member_end(struct kind_member *member, enum status status, const struct error *error)
{
    member->status = status;
    if (status != STATUS_OK) member->error = *error;
    member->ended(member);
}
