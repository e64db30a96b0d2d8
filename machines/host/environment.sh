# shellcheck shell=sh disable=SC2154
# `$2` node, `$3` bridge, `$4` uv, `$5` folder of environments (all relative), `$6` name, `$7` python, `$8` cpu or tpu, `$9` folder of
# wheels to install from instead of the index (relative; empty: the index), then how often uv retries (empty: uv's default), and
# additional packages to install, one per line.
TPULAB_UV=$base/$3; export TPULAB_UV
if [ -n "$9" ]; then UV_HTTP_RETRIES=$9; export UV_HTTP_RETRIES; fi
if [ -n "$8" ]; then
  printf 'no-index = true\nfind-links = ["%s"]\n' "$base/$8" >"$base/$8/uv.toml" || exit "$exit_unpack"
  UV_OFFLINE=1; UV_CONFIG_FILE=$base/$8/uv.toml; export UV_OFFLINE UV_CONFIG_FILE
fi
"$base/$1" "$base/$2/bin/tpulab.js" env create "$5" --env-dir "$base/$4" --python "$6" --accelerator "$7" \
  ${10:+--also} ${10:+"${10}"} --progress lines --json 2>&1 9>&-
