#!/bin/sh
# sysroot.sh DIRECTORY ARCHITECTURE PACKAGE...: unpacks Debian packages of another architecture (arm64), and all that
# they depend on, below DIRECTORY, for a cross compiler and an emulator. Nothing is installed and no rights are needed:
# apt keeps its lists and its idea of what is installed (nothing) in DIRECTORY.apt. The release is this system's own, so
# that compiler and libraries are of one age. Exit status 1: apt could not, and its words are on stderr.
set -eu
mkdir -p "$1"
directory=$(cd "$1" && pwd) architecture=$2
shift 2
wanted="$architecture $*"
[ "$(cat "$directory/.made" 2>/dev/null)" != "$wanted" ] || exit 0
for tool in apt-get dpkg-deb; do
    command -v $tool >/dev/null || {
        echo "this system has no $tool to fetch and unpack Debian packages" >&2
        exit 1
    }
done
. /etc/os-release
apt=$directory.apt
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] http://deb.debian.org/debian $VERSION_CODENAME main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<CONFIGURATION
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Install-Recommends "0";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
Acquire::Retries "2";
CONFIGURATION
echo "  fetching and unpacking packages of $architecture into $directory"
export APT_CONFIG="$apt/apt.conf"
apt-get update -qq
apt-get install -qq -y --download-only "$@" >/dev/null
# The links that a merged /usr has; without them the packages would make directories.
rm -rf "$directory"
mkdir -p "$directory/usr/lib" "$directory/usr/bin" "$directory/usr/sbin"
for name in lib bin sbin; do ln -s usr/$name "$directory/$name"; done
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$directory"
done
# What update-alternatives would have made.
for library in "$directory"/usr/lib/*/openblas-pthread/libopenblas.so.0; do
    ln -s openblas-pthread/libopenblas.so.0 "${library%/openblas-pthread/*}/libopenblas.so.0"
done
rm -rf "$apt"
echo "$wanted" >"$directory/.made"
