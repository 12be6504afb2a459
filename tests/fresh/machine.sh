# Sourced by scripts that want a bare Debian: made by debootstrap as root, kept as a tarball in build/fresh, entered in
# namespaces of its own. Packages come from where this machine's apt takes them, with its proxy and its own certificate
# authorities.

machine_needs() {
    [ "$(id -u)" = 0 ] || { echo "$1: needs root: debootstrap and chroot" >&2; exit 1; }
    command -v debootstrap >/dev/null || { echo "$1: needs debootstrap: apt-get install debootstrap" >&2; exit 1; }
    machine_mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' |
        grep -v security | head -1)
    [ -n "$machine_mirror" ] || {
        echo "$1: this machine's apt knows no Debian archive: run apt-get update" >&2
        exit 1
    }
}

# machine_base SUITE TARBALL PACKAGES: debootstrap's minimal system and those packages (a,b,c), unless it is there.
machine_base() {
    local root=$2.root
    [ ! -f "$2" ] || return 0
    rm -rf "$root" && mkdir -p "$root"
    eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
    [ -z "${http_proxy:-}" ] || export http_proxy
    [ -z "${https_proxy:-}" ] || export https_proxy
    debootstrap --variant=minbase ${3:+--include="$3"} "$1" "$root" "$machine_mirror"
    tar -C "$root" -cf "$2.part" . && mv "$2.part" "$2" && rm -rf "$root"
}

# machine_unpack SUITE TARBALL ROOT: a new machine, with this machine's way to the network.
machine_unpack() {
    local root=$3
    rm -rf "$root" && mkdir -p "$root" && tar -C "$root" -xf "$2"
    echo "deb $machine_mirror $1 main" >"$root/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::(http|https)::' >"$root/etc/apt/apt.conf.d/90host" || true
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/90fresh" # nobody needs this machine after a crash
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
}

# machine_inside ROOT COMMAND: in a mount namespace of its own, so that the mounts go with it, and in a process
# namespace, so that nothing is left running.
machine_inside() {
    local environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 CI=true)
    while IFS= read -r entry; do environment+=("$entry"); done < <(
        env | grep -E '^PIP_(INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT)=' || true)
    unshare --mount --pid --fork --kill-child bash -c '
        set -e
        mount -t proc proc "$1/proc"
        mount --bind /dev "$1/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
        chroot "$1" env -i "${@:3}" bash -c "$2"
        exit $?' fresh "$1" "set -e; $2" "${environment[@]}"
}
