# venv.sh - sourced by scripts that need packages from PyPI.
#
# venv_python NAME PACKAGE... prints the path of a python that has the packages. The environment lives in
# ${XDG_CACHE_HOME:-~/.cache}/penstock/NAME and is made once; what is there already is used without any network.

venv_python() {
    local name=$1 folder stamp
    shift
    folder="${XDG_CACHE_HOME:-$HOME/.cache}/penstock/$name"
    stamp="$folder/packages"
    if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$*" ]; then
        echo "making a Python environment with $* in $folder" >&2
        if ! { python3 -m venv "$folder" && "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; } >&2; then
            echo "could not install $* from PyPI: check the network (deploy/install-deps.sh installs python3-venv) and try again" >&2
            return 1
        fi
        printf '%s\n' "$*" >"$stamp"
    fi
    printf '%s\n' "$folder/bin/python"
}
