"""jupyter_server's gateway client, and what is built on it, with the bridge as the gateway."""
