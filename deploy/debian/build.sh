#!/bin/sh
# build.sh BUILD PROFILES PACKAGE...: makes deltaq's Debian package for the Debian that this is, in BUILD/debian, of a
# copy of the tree, with nothing that was compiled before; BUILD/static has what `make static` fetched. PROFILES is
# what dpkg-buildpackage takes (pkg.deltaq.cuda adds the CUDA plugin's package, pkg.deltaq.onlycuda makes that alone);
# PACKAGE... is what building needs.
#
# The version is that of engine/base/version.h, and tells for which Debian it was built: 0.1.0-1+deb12. A commit that
# has no tag of that version comes before it: 0.1.0~git20261122150405.0f1e2d3-1+deb12. Without git, COMMIT and
# SOURCE_DATE_EPOCH in the environment say what git would. The same commit gives the same bytes.
set -eu
build=$(cd "$1" && pwd) profiles=$2
shift 2
needs=$(echo "$*" | sed 's/ \{1,\}/, /g')
maintainer=${MAINTAINER:-deltaq maintainers <deltaq@packages.invalid>}

version=$(sed -n 's/^#define DELTAQ_VERSION "\(.*\)"$/\1/p' engine/base/version.h)
released=
if [ -e .git ]; then
    COMMIT=$(git rev-parse --short=7 HEAD)
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    released=$(git tag --points-at HEAD --list "v$version")
fi
: "${COMMIT:=}" "${SOURCE_DATE_EPOCH:=$(date -r CHANGELOG.md +%s)}"
if [ -n "$COMMIT" ] && [ -z "$released" ]; then
    version=$version~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$COMMIT
fi
. /etc/os-release
[ "$ID" = debian ] && ID=deb
version=$version-1+$ID${VERSION_ID:-}

tree=$build/debian/tree
rm -rf "$build/debian" && mkdir -p "$tree/build/static"
if [ -e .git ]; then
    git ls-files -z | grep -zv '^tests/fuzz/corpus/' | tar --null -T - -cf - | tar -C "$tree" -xf -
else
    tar --exclude=./build --exclude=./tests/fuzz/corpus -cf - . | tar -C "$tree" -xf -
fi
cp "$build"/static/* "$tree/build/static/" # newer than what it is made of, so it is not fetched again
cp -R deploy/debian "$tree/debian"
cd "$tree"
sed -e "s|@MAINTAINER@|$maintainer|" -e "s|@BUILD_DEPENDS@|$needs|" debian/control.in >debian/control
cat >debian/changelog <<END
deltaq ($version) unstable; urgency=medium

  * What is new: CHANGELOG.md.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
rm debian/control.in debian/build.sh

export SOURCE_DATE_EPOCH DELTAQ_COMMIT="$COMMIT" DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$(nproc)"
# -d: what is needed was looked at by make, also where it is not a package (nvcc from NVIDIA).
MAKEFLAGS= MAKELEVEL= dpkg-buildpackage --build=binary --no-sign -d -P"$profiles" >"$build/debian/log" 2>&1 || {
    tail -40 "$build/debian/log" >&2
    exit 1
}
rm -rf "$tree"
ls "$build"/debian/*.deb
