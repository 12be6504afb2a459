#!/bin/bash
# units_inside.sh: as root on a machine that systemd has booted, that may be thrown away, and that units.sh has made:
# asks the server's unit, then the worker's, then the launcher's for what docs/running.md promises of them.
set -euo pipefail
port=8642 data=/var/lib/deltaq unit=
gate=$data/gate
settings=/etc/default/deltaq

say() { printf '%6s s  %s\n' "$SECONDS" "$*"; }
fail() {
    echo "units_inside.sh: $*" >&2
    systemctl status --no-pager --full "${unit:-deltaq}" || true
    journalctl --no-pager --lines 60 --unit "${unit:-deltaq}" || true
    exit 1
}
of() { systemctl show --value --property "$1" "${2:-$unit}"; }
pids() { in_group "$(of ControlGroup)"; }
in_group() { grep -lsE ":$1\$" /proc/[0-9]*/cgroup | cut -d/ -f3; } # wherever control groups are mounted
has() { grep -q "$1" <<<"$(ps -o args= -p "$(pids | paste -sd,)")"; } # a process whose command has these words
until_true() { # SECONDS WORD...: whether the command succeeds within that time
    local end=$((SECONDS + $1))
    while ! "${@:2}" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}
ready() { deltaq ready --wait --timeout 120 >/dev/null || fail "the server is not ready"; }
state() { curl -sf "http://127.0.0.1:$port/v1/runs/$1" | jq -r .state; }
is_state() { [ "$(state "$1")" = "$2" ]; }
# From now on runs are held in their middle by their first worker (server/pool/gate.h).
hold() { echo 'quantize 1 * 1' >$gate/new && mv $gate/new $gate/hold; }
held() { compgen -G "$gate/held-$1-${2:-*}"; }
quantize() { # BITS WORD...
    deltaq run quantize small/first --method rtn --bits "$1" --group-size 16 --evaluation.dataset rows "${@:2}"
}

# What each process of the unit is, and what it may do. Root in its mount namespace is refused what the unit is refused.
sandboxed() {
    local pid status first
    first=$(of MainPID)
    [ "$first" != 0 ] || fail "$unit has no process"
    for pid in $(pids); do
        status=$(cat "/proc/$pid/status") || continue # it has ended
        for line in "Uid:(\\s$(id -u deltaq)){4}" "Gid:(\\s$(id -g deltaq)){4}" 'NoNewPrivs:\s1' 'Seccomp:\s2' \
            'CapEff:\s0*' 'CapBnd:\s0*' 'CapPrm:\s0*' 'CapAmb:\s0*'; do
            grep -qP "^$line\$" <<<"$status" || fail "$unit: $(tr '\0' ' ' <"/proc/$pid/cmdline"): not $line"
        done
        [ "$(readlink "/proc/$pid/ns/mnt")" = "$(readlink "/proc/$first/ns/mnt")" ] || fail "$pid left the namespace"
    done
    [ "$(readlink "/proc/$first/ns/mnt")" != "$(readlink /proc/1/ns/mnt)" ] || fail "$unit has no mounts of its own"
    for place in /usr /etc /home /root /opt /srv /var/log /sys/fs/cgroup; do
        nsenter -t "$first" -m touch "$place/probe" 2>/dev/null && fail "$unit may write into $place"
    done
    nsenter -t "$first" -m touch $data/probe /tmp/probe || fail "$unit may not write where it must"
    [ ! -e /tmp/probe ] || fail "$unit has no /tmp of its own"
    nsenter -t "$first" -m rm $data/probe
}

# Restart= brings it back: another process, counted once.
survives_kill() {
    local before=$1 restarts
    restarts=$(of NRestarts)
    kill -9 "$before"
    until_true 60 another_process "$before" || fail "$unit is not started again"
    [ "$(of NRestarts)" = $((restarts + 1)) ] || fail "$unit: $(of NRestarts) restarts after $restarts and a kill"
}
another_process() { [ "$(of MainPID)" != "$1" ] && [ "$(of MainPID)" != 0 ] && systemctl -q is-active "$unit"; }

stops() { # within how many seconds, and cleanly
    local began=$SECONDS group
    group=$(of ControlGroup)
    systemctl stop "$unit"
    [ $((SECONDS - began)) -le "$1" ] || fail "$unit took $((SECONDS - began)) s to stop"
    [ "$(of Result)" = success ] && [ "$(of ExecMainStatus)" = 0 ] || fail "$unit: $(of Result), $(of ExecMainStatus)"
    [ -z "$(in_group "$group" || true)" ] || fail "left behind: $(in_group "$group")"
    say "$unit stops in $((SECONDS - began)) s"
}

no_refusals() { # of the sandbox, in the log
    ! journalctl --no-pager --unit "$unit" |
        grep -Ei 'not permitted|read-only file|permission denied|bad system call' ||
        fail "the sandbox refuses what $unit wants"
}

the_server() {
    local run main was
    unit=deltaq
    until_true 60 systemctl -q is-active deltaq || fail "it was enabled, and does not run after the boot"
    ready
    say "deltaq is there after the boot"
    curl -sf "http://127.0.0.1:$port/healthz" >/dev/null || fail "its port does not answer"
    for name in 'deltaq serve' ' worker ' bin/postgres; do
        has "$name" || fail "no $name in the unit"
    done
    [ "$(stat -c '%U %a' $data)" = "deltaq 700" ] || fail "$data is $(stat -c '%U %a' $data)"
    sandboxed
    say "server, worker and PostgreSQL ($(pids | wc -w) processes) are in the sandbox as the user deltaq"

    deltaq register /srv/checkpoints/first --trajectory small --name first --step 1 >/dev/null
    curl -sf -H 'Content-Type: application/json' "http://127.0.0.1:$port/v1/datasets" -d @/srv/checkpoints/rows.json \
        >/dev/null || fail "no dataset"
    quantize 4 --wait --timeout 120 >/dev/null || fail "a run does not succeed"
    say "a run succeeds"

    install -d -o deltaq -g deltaq -m 0700 $gate
    echo DELTAQ_TEST_GATE=$gate >>$settings
    main=$(of MainPID)
    systemctl restart deltaq
    ready
    [ "$(of MainPID)" != "$main" ] || fail "it was not restarted"
    curl -sf "http://127.0.0.1:$port/v1/runs?state=succeeded" | jq -e '.items | length == 1' >/dev/null || fail "lost"
    say "systemctl restart: the run is there"

    hold
    run=$(quantize 3)
    until_true 60 held "$run" 1 || fail "the run is not held"
    survives_kill "$(of MainPID)"
    rm $gate/hold
    ready
    until_true 120 is_state "$run" succeeded || fail "the run is $(state "$run") after the server was killed"
    say "kill -9 of the server: it is started again, and the run that it had succeeds"

    main=$(of MainPID)
    kill -9 "$(head -1 $data/pg/data/postmaster.pid)"
    until_true 60 quantize 2 --wait --timeout 60 || fail "no run succeeds after PostgreSQL was killed"
    ready
    sandboxed
    was=$(of MainPID)
    say "kill -9 of PostgreSQL: runs succeed again ($([ "$was" = "$main" ] && echo the same || echo another) server)"

    hold
    run=$(quantize 8)
    until_true 60 held "$run" 1 || fail "the run is not held"
    stops 30
    rm $gate/hold
    tail -5 $data/pg/postgres.log | grep -q 'database system is shut down' || fail "PostgreSQL was not shut down"
    systemctl start deltaq
    ready
    until_true 120 is_state "$run" succeeded || fail "the run is $(state "$run") after a stop"
    say "the run that was stopped in its middle goes on after systemctl start"
    no_refusals
    stops 30
}

# The server on PostgreSQL by URL, and the worker beside it, as on another machine.
the_worker() {
    local run
    unit=deltaq-worker
    systemctl start deltaq-worker
    [ "$(of ConditionResult)" = no ] && [ "$(of MainPID)" = 0 ] || fail "it starts without settings"
    systemctl start postgresql
    runuser -u postgres -- createuser deltaq
    runuser -u postgres -- createdb -O deltaq deltaq
    echo 'DATABASE_URL=postgresql:///deltaq?host=/run/postgresql' | tee -a $settings >/etc/default/deltaq-worker
    grep -v DATABASE_URL $settings >>/etc/default/deltaq-worker
    echo DELTAQ_WORKERS=0 >>$settings
    systemctl start deltaq
    ready
    deltaq register /srv/checkpoints/first --trajectory small --name first --step 1 >/dev/null
    curl -sf -H 'Content-Type: application/json' "http://127.0.0.1:$port/v1/datasets" -d @/srv/checkpoints/rows.json \
        >/dev/null || fail "no dataset"
    run=$(quantize 4)
    is_state "$run" queued || fail "a server without workers has done it"
    systemctl start deltaq-worker
    until_true 120 is_state "$run" succeeded || fail "deltaq-worker does not do it"
    sandboxed
    say "deltaq-worker does a run of a server by DATABASE_URL, in its sandbox"
    hold
    run=$(quantize 3)
    until_true 60 held "$run" 1 || fail "the run is not held"
    survives_kill "$(of MainPID)"
    rm $gate/hold
    until_true 120 is_state "$run" succeeded || fail "the run is $(state "$run") after the worker was killed"
    say "kill -9 of the worker: it is started again, and the run succeeds"
    no_refusals
    stops 30
    unit=deltaq
    no_refusals
}

# Slurm is a stand-in: this is about the unit. tests/slurm has the real one.
the_launcher() {
    local run
    unit=deltaq-launcher
    install -d -o deltaq -g deltaq -m 0700 $data/slurm
    cat >/usr/bin/sbatch <<'END'
#!/bin/sh
cat >/dev/null
cd /var/lib/deltaq/slurm
for word; do case $word in --job-name=*) name=${word#--job-name=} ;; esac; done
echo "$*" >>submitted
number=$(wc -l <submitted)
echo "$number|$number|$name|PENDING|Resources" >>jobs
echo "$number"
END
    printf '#!/bin/sh\ncase "$*" in *--states=all*) ;; *) cat /var/lib/deltaq/slurm/jobs ;; esac\n' >/usr/bin/squeue
    printf '#!/bin/sh\n' >/usr/bin/scancel
    chmod 755 /usr/bin/sbatch /usr/bin/squeue /usr/bin/scancel
    touch $data/slurm/jobs && chown deltaq:deltaq $data/slurm/jobs
    grep -E 'DATABASE_URL|DELTAQ_ROOT' $settings >/etc/default/deltaq-launcher
    echo DELTAQ_LAUNCHER_INTERVAL=1 >>/etc/default/deltaq-launcher
    systemctl start deltaq-launcher
    run=$(quantize 2)
    until_true 60 grep -q -- --job-name $data/slurm/submitted || fail "nothing is submitted for run $run"
    sandboxed
    say "deltaq-launcher submits a job for a queued run, in its sandbox"
    survives_kill "$(of MainPID)"
    say "kill -9 of the launcher: it is started again"
    no_refusals
    stops 30
    unit=deltaq
    stops 30
}

trap 'fail "line $LINENO"' ERR
the_server
the_worker
the_launcher
echo "units_inside.sh: good"
