#!/bin/bash
# check_deb.sh [bookworm|trixie]: makes the Debian package of what is committed on a bare machine of that suite, then
# on another one installs it, asks it what a person would, upgrades, removes and purges it. Needs root and debootstrap.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/fresh/machine.sh
suite=${1:-bookworm}
root=$PWD/build/fresh/deb-$suite
base=$PWD/build/fresh/$suite.tar

machine_needs check-deb
mkdir -p build/fresh
machine_base "$suite" "$base" make,git,ca-certificates

rm -rf build/fresh/debs && mkdir build/fresh/debs
machine_unpack "$suite" "$base" "$root"
git clone -q --no-hardlinks . "$root/root/deltaq"
machine_inside "$root" "update-ca-certificates >/dev/null; cd /root/deltaq; make -s deb
    apt-get install -y -qq --no-install-recommends lintian >/dev/null
    lintian --allow-root --fail-on error -i build/debian/*.changes"
cp "$root"/root/deltaq/build/debian/*.deb build/fresh/debs/
rm -rf "$root"

machine_unpack "$suite" "$base" "$root"
cp build/fresh/debs/*.deb tests/fresh/installed.sh "$root/root/"
machine_inside "$root" "update-ca-certificates >/dev/null; sh /root/installed.sh /root/deltaq_*.deb"
rm -rf "$root" build/fresh/debs
echo "$suite: the package is made, installs, works, upgrades and goes"
