# shellcheck shell=sh disable=SC2154
# What uv needs to keep everything below our folder. Sets nothing of the index: that is the host's and the user's.
UV_CACHE_DIR=$base/cache/uv; UV_PYTHON_INSTALL_DIR=$base/python; UV_NO_PROGRESS=1; NO_COLOR=1
export UV_CACHE_DIR UV_PYTHON_INSTALL_DIR UV_NO_PROGRESS NO_COLOR
unset VIRTUAL_ENV PYTHONPATH PYTHONHOME
