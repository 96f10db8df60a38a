# upgrade.sh - part of packages_test.sh: the packages of the commit before are upgraded to this one's under load, in the bare root, and every job is counted.
# Uses its build, source, folder, root, in_root and check.

# The commit whose packages are the old ones: the last one, which is the one before where nothing is changed here. Says why there is none.
old_commit() {
    command -v git >/dev/null && [ -e "$source/.git" ] || { echo "there is no git history here"; return 1; }
    local git=(git -c safe.directory=* -C "$source") base=HEAD
    "${git[@]}" diff --quiet HEAD -- 2>/dev/null && base=HEAD^
    "${git[@]}" rev-parse --verify --quiet "$base^{commit}" || { echo "the history is too short to hold the commit before"; return 1; }
}

# old_packages COMMIT: into build/old/COMMIT-packages/debs, once; soon built: one backend, not optimised.
old_packages() {
    local place=$build/old/${1:0:12}-packages
    [ -f "$place/done" ] && return 0
    rm -rf "$place" && mkdir -p "$place/source" || return 1
    git -c safe.directory=* -C "$source" archive "$1" | tar -x -C "$place/source" || return 1
    {
        CCACHE_BASEDIR=$place CCACHE_NOHASHDIR=1 nice cmake -G Ninja -S "$place/source" -B "$place/build" -DPENSTOCK_TESTS=OFF -DPENSTOCK_WERROR=OFF -DPENSTOCK_BACKENDS=reference -DCMAKE_BUILD_TYPE=Debug &&
            CCACHE_BASEDIR=$place CCACHE_NOHASHDIR=1 nice cmake --build "$place/build" &&
            (cd "$place/build" && cpack --config CPackConfig.cmake -B "$place/debs")
    } >"$place.log" 2>&1 && rm -rf "$place/build" "$place/source" "$place"/debs/_CPack_Packages && touch "$place/done"
}

# launch NAME PROGRAM ARGUMENT...: from the root's packages; its log is $folder/NAME.
launch() {
    local name=$1
    shift
    chroot "$root" "$@" >"$folder/$name" 2>&1 &
    pid_of[$name]=$!
    echo $! >>"$folder/pids"
}

# says NAME PATTERN: within 20 seconds.
says() {
    for _ in $(seq 200); do grep -q "$2" "$folder/$1" && return; sleep 0.1; done
    tail -n 20 "$folder/$1"
    return 1
}

finish() { # NAME
    kill -TERM "${pid_of[$1]}" && wait "${pid_of[$1]}"
}

launch_broker() { # NAME CLIENTS WORKERS: the same addresses before and after
    launch "$1" /usr/bin/penstock-broker --listen-clients "tcp://127.0.0.1:$2" --listen-workers "tcp://127.0.0.1:$3" --http none --cache none --journal "/var/tmp/$1.journal"
    says "$1" 'evt=listening'
}

launch_worker() { # NAME
    launch "$1" /usr/bin/penstock-worker --broker "$work" --models /models --backend reference --slots 1 --threads 1 --name "$1"
    says "$1" 'evt=welcome'
}

# One number of ports for each broker, free at this moment.
free_ports() {
    python3 -c 'import socket
held = [socket.socket() for _ in range(4)]
[s.bind(("127.0.0.1", 0)) for s in held]
print(*[s.getsockname()[1] for s in held])'
}

# Brokers first, one after the other, then workers (deploy/RELEASES.md); what systemd's units would do, the test does.
restart_all() {
    finish east && launch_broker east "$east_clients" "$east_workers" && sleep 1 &&
        finish west && launch_broker west "$west_clients" "$west_workers" && sleep 1 &&
        finish one && launch_worker one && finish two && launch_worker two
}

load_is_whole() { # exit 0, and every job answered
    wait "$load" && grep -q '"errors":0[,}]' "$folder/load" && ! grep -q '"requests":0[,}]' "$folder/load" || { cat "$folder/load" "$folder/load.err"; return 1; }
}

detached_are_whole() {
    local job
    while read -r job; do
        in_root penstock fetch --broker "$clients" "$job" || { echo "job $job is lost"; return 1; }
    done <"$folder/jobs"
    [ "$(wc -l <"$folder/jobs")" = 5 ]
}

upgrade_under_load() { # FOLDER-OF-OLD-DEBS
    declare -gA pid_of
    read -r east_clients east_workers west_clients west_workers < <(free_ports)
    clients=tcp://127.0.0.1:$east_clients,tcp://127.0.0.1:$west_clients work=tcp://127.0.0.1:$east_workers,tcp://127.0.0.1:$west_workers
    rm -rf "$root/old" "$root/models" && mkdir "$root/old" "$root/models" && cp "$1"/*.deb "$root/old/" && cp -r "$source/deploy/models/digits" "$root/models/"
    check "the packages of the commit before install" in_root bash -c 'dpkg -i --force-confold --force-downgrade /old/*.deb'
    check "a pool of them serves" eval 'launch_broker east "$east_clients" "$east_workers" && launch_broker west "$west_clients" "$west_workers" && launch_worker one && launch_worker two'
    for _ in 1 2 3 4 5; do in_root penstock submit --json --detach --no-cache --broker "${clients%,*}" digits /models/digits/samples/00_zero.png; done | sed -n 's/.*"job":"\([^"]*\)".*/\1/p' >"$folder/jobs"
    in_root penstock load --model digits --broker "$clients" --unique --concurrency 8 --duration 12s --json >"$folder/load" 2>"$folder/load.err" &
    load=$!
    echo $load >>"$folder/pids"
    sleep 2
    check "they are upgraded while it is under load" in_root bash -c 'dpkg -i --force-confold --force-downgrade /debs/*.deb'
    check "what runs is still the old program" bash -c "readlink /proc/${pid_of[east]}/exe | grep -q deleted"
    check "each program is exchanged" restart_all
    check "what runs is the new program" bash -c "! readlink /proc/${pid_of[east]}/exe /proc/${pid_of[west]}/exe /proc/${pid_of[one]}/exe | grep deleted"
    check "no job of the load was lost" load_is_whole
    clients=${clients%,*}
    check "no job that was left in the journal was lost" detached_are_whole
    for name in one two east west; do finish $name; done
}
