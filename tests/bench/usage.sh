# usage.sh - sourced first by the benches: --help prints the comment at the head of the script, before anything is looked for.
case " $* " in
*" --help "* | *" -h "*)
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
