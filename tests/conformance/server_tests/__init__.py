"""jupyter_server's own tests against the bridge."""
