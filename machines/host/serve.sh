# shellcheck shell=sh
# Prints version, record and token of the gateway that serves the state folder, one per line, and starts one first if none runs.
# Exit 4: it does not start; standard error contains the reason.
# Node would wait for a debugger.
case ${NODE_OPTIONS-} in *--inspect*) unset NODE_OPTIONS ;; esac
# A broken installation fails here, with its own message.
version=$(tpulab --version) || exit 4
state="${TPULAB_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/tpulab}"
umask 077
mkdir -p "$state/run" || { echo "the state folder $state cannot be made" >&2; exit 4; }
serves() { tpulab status --state-dir "$state" --json 2> /dev/null | grep -q '"status":"'; }
# Cheap, but less certain: a process of another program may have got the pid.
seems_to() {
  pid_there=$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$state/gateway.json" 2> /dev/null)
  [ -n "$pid_there" ] && kill -0 "$pid_there" 2> /dev/null
}
if ! serves; then
  free=$(df -Pk "$state" | awk 'NR == 2 { print $4 }')
  if [ "${free:-9999}" -lt 1024 ]; then echo "No space left on device: $free KiB for $state" >&2; exit 4; fi
  rm -f "$state/gateway.json"
  out="$state/run/serve.out"
  detach='nohup'
  if command -v setsid > /dev/null; then detach='setsid'; fi
  $detach tpulab serve --unix-socket --state-dir "$state" > "$out" 2>&1 < /dev/null &
  pid=$!
  tries=0
  until seems_to; do
    # If it ended immediately, another gateway may have been started at the same time; that one is ready soon.
    kill -0 "$pid" 2> /dev/null || tries=$((tries + 10))
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ]; then tail -n 20 "$out" >&2; exit 4; fi
    sleep 0.2
  done
fi
echo "$version"
tr -d '\n' < "$state/gateway.json"; echo
cat "$state/token"
