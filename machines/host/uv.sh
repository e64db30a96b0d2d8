# shellcheck shell=sh disable=SC2154
# The variables that keep all files of uv below our folder. Sets no index: the host and the user configure that.
UV_CACHE_DIR=$base/cache/uv; UV_PYTHON_INSTALL_DIR=$base/python; UV_NO_PROGRESS=1; NO_COLOR=1
export UV_CACHE_DIR UV_PYTHON_INSTALL_DIR UV_NO_PROGRESS NO_COLOR
unset VIRTUAL_ENV PYTHONPATH PYTHONHOME
