#!/bin/sh
# Adds Debian's components contrib and non-free to the sources of packages that apt has, whatever archive they name,
# and reads their lists: in both forms of such files. CUDA's toolkit and libraries are in non-free.
set -eu
for sources in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$sources" ] || sed -i 's/^Components: main$/Components: main contrib non-free/' "$sources"
done
for sources in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$sources" ] || sed -i 's/^\(deb .* main\)$/\1 contrib non-free/' "$sources"
done
apt-get update -qq
