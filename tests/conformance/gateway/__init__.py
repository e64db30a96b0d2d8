"""jupyter_server's gateway client, and its subclasses, with the bridge as the gateway."""
