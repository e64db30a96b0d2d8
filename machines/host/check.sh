# shellcheck shell=sh
# `$1` process of the server here, `$2` folder of the copied files, `$3` folder for the results, `$4` name of the source in the report,
# `$5` the user's price list (empty: this machine's), then the arguments of `tpulab check`, which runs as that server's program, with
# its environments. Prints the progress of the check, and ends it when the standard input ends: the connection is lost, or the caller
# was interrupted.
server=/proc/$1; files=$2; results=$3
TPULAB_CHECK_FILE=$4; export TPULAB_CHECK_FILE
[ -z "$5" ] || { TPULAB_PRICES=$5; export TPULAB_PRICES; }
shift 5
words() { tr '\0' '\n' <"$server/$1"; }
node=$(readlink "$server/exe") || { echo 'the server of this machine has ended' >&2; exit 2; }
program=$(words cmdline | sed -n '2,${/^-/!{p;q;};}')
environments=$(words cmdline | sed -n '/^--env-dir$/{n;p;q;}')
while IFS= read -r variable; do [ -z "$variable" ] || export "${variable?}"; done <<END
$(words environ | grep -E '^(TPULAB_(UV|ENV_DIR|AOT_PYTHON)|UV_[A-Z_]+|PYTHONPATH|PATH)=')
END
[ -z "$environments" ] || { TPULAB_ENV_DIR=$environments; export TPULAB_ENV_DIR; }
mkdir -p "$results" && cd -- "$files" || exit 2
exec 3<&0
"$node" "$program" check "$@" 2>&1 >"$results/printed" </dev/null 3<&- &
check=$!
{ cat <&3; kill "$check"; } >/dev/null 2>&1 &
wait "$check"
code=$?
exec 3<&-
exit "$code"
