#!/bin/bash
# run.sh [bookworm|trixie [COMMAND...]]: proves README's two commands on a bare machine. Makes a minimal Debian with
# debootstrap in build/fresh (kept as a tarball for the next time) and runs `make demo` and `make check` (or each
# COMMAND), each in a new copy of it with a clone of what is committed and nothing but make and git. Says how long
# each took. Needs root. Packages come from where this machine's apt takes them, with its proxy and its own
# certificate authorities.
set -euo pipefail
cd "$(dirname "$0")/../.."
suite=${1:-bookworm}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- "make demo" "make check"
fresh=$PWD/build/fresh
base=$fresh/$suite.tar
root=$fresh/$suite

[ "$(id -u)" = 0 ] || { echo "check-fresh: needs root: debootstrap and chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "check-fresh: needs debootstrap: apt-get install debootstrap" >&2; exit 1; }

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' |
    grep -v security | head -1)
[ -n "$mirror" ] || { echo "check-fresh: this machine's apt knows no Debian archive: run apt-get update" >&2; exit 1; }

if [ ! -f "$base" ]; then
    rm -rf "$root" && mkdir -p "$root"
    eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
    [ -z "${http_proxy:-}" ] || export http_proxy
    [ -z "${https_proxy:-}" ] || export https_proxy
    debootstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$root" "$mirror"
    tar -C "$root" -cf "$base.part" . && mv "$base.part" "$base"
fi

# A new machine: a list of packages, the clone, and this machine's way to the network.
unpack() {
    rm -rf "$root" && mkdir -p "$root" && tar -C "$root" -xf "$base"
    echo "deb $mirror $suite main" >"$root/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::(http|https)::' >"$root/etc/apt/apt.conf.d/90host" || true
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/90fresh" # nobody needs this machine after a crash
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
    git clone -q --no-hardlinks . "$root/root/deltaq"
}

environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 CI=true)
while IFS= read -r entry; do environment+=("$entry"); done < <(
    env | grep -E '^PIP_(INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT)=' || true)

# In a mount namespace of its own, so that the mounts go with it, and in a process namespace, so that nothing is left
# running.
inside() {
    unshare --mount --pid --fork --kill-child bash -c '
        set -e
        mount -t proc proc "$1/proc"
        mount --bind /dev "$1/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
        chroot "$1" env -i "${@:3}" bash -c "$2"
        exit $?' fresh "$root" "set -e; update-ca-certificates >/dev/null; cd /root/deltaq; $1" "${environment[@]}"
}

summary=() failed=0
for command in "$@"; do
    unpack
    began=$SECONDS code=0
    inside "$command" || code=$?
    [ "$code" = 0 ] || failed=1
    summary+=("$suite: $command: exit status $code after $((SECONDS - began)) s")
    rm -rf "$root"
done
printf '%s\n' "${summary[@]}"
exit $failed
