#!/bin/bash
# upgrade.sh [FROM TO]: moves a server's private database from the PostgreSQL of one Debian to that of another
# (bookworm's 15, trixie's 17), as docs/running.md says: `deltaq backup` there, `deltaq restore` here. deltaq is built
# in both. Then the answers must be the same ones, a run made again gives the same numbers, and the old data directory
# itself is refused with what to do. Needs root (machine.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/fresh/machine.sh
from=${1:-bookworm} to=${2:-trixie}
machine_needs check-upgrade
mkdir -p build/fresh
moved=build/fresh/moved
commit=$(git rev-parse HEAD) # of both, whatever is committed meanwhile
rm -rf "$moved"

for suite in "$from" "$to"; do
    root=$PWD/build/fresh/$suite.upgrade
    machine_base "$suite" "$PWD/build/fresh/$suite.tar" make,git,ca-certificates
    machine_unpack "$suite" "$PWD/build/fresh/$suite.tar" "$root"
    git clone -q --no-hardlinks . "$root/root/deltaq"
    git -C "$root/root/deltaq" checkout -q "$commit"
    what=make
    [ "$suite" = "$from" ] || { what=check && cp -a "$moved" "$root/root/moved"; }
    machine_inside "$root" "update-ca-certificates >/dev/null; cd /root/deltaq; make deps; make
        python3 tests/fresh/upgrade.py $what build/deltaq /root/moved"
    [ "$suite" != "$from" ] || cp -a "$root/root/moved" "$moved"
    rm -rf "$root"
done
rm -rf "$moved"
