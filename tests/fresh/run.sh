#!/bin/bash
# run.sh [bookworm|trixie [COMMAND...]]: proves README's two commands on a bare machine. Makes a minimal Debian with
# debootstrap in build/fresh (kept as a tarball for the next time) and runs `make demo` and `make check` (or each
# COMMAND), each in a new copy of it with a clone of what is committed and nothing but make and git. Says how long
# each took. Needs root. Packages come from where this machine's apt takes them, with its proxy and its own
# certificate authorities.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/fresh/machine.sh
suite=${1:-bookworm}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- "make demo" "make check"
root=$PWD/build/fresh/$suite
base=$root.tar

machine_needs check-fresh
mkdir -p build/fresh
machine_base "$suite" "$base" make,git,ca-certificates

summary=() failed=0
for command in "$@"; do
    machine_unpack "$suite" "$base" "$root"
    git clone -q --no-hardlinks . "$root/root/deltaq"
    began=$SECONDS code=0
    machine_inside "$root" "update-ca-certificates >/dev/null; cd /root/deltaq; $command" || code=$?
    [ "$code" = 0 ] || failed=1
    summary+=("$suite: $command: exit status $code after $((SECONDS - began)) s")
    rm -rf "$root"
done
printf '%s\n' "${summary[@]}"
exit $failed
