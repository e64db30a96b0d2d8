"""Configuration of a JupyterLab under test; the values come from the environment that LabServer sets."""

# ruff: noqa: F821  (Jupyter gives `c`)
import json
import os

from jupyterlab.galata import configure_jupyter_server

given = json.loads(os.environ["TPULAB_UI_TEST"])

# Galata's helpers need a page without login. Without them the server keeps its token, as `npm start` has it.
if given["galata"]:
    configure_jupyter_server(c)

c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = given["port"]
c.ServerApp.port_retries = 0
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.root_dir = given["rootDir"]
c.ServerApp.jpserver_extensions = {"jupyterlab_tpulab": True}
c.LabApp.labextensions_path = [given["labextensions"]]
c.LabApp.workspaces_dir = given["workspaces"]
c.LabApp.user_settings_dir = given["userSettings"]
# Notebook 7 has its own names for the same settings.
c.JupyterNotebookApp.labextensions_path = [given["labextensions"]]
c.JupyterNotebookApp.workspaces_dir = given["workspaces"]
c.JupyterNotebookApp.user_settings_dir = given["userSettings"]
c.JupyterNotebookApp.expose_app_in_browser = True
# Tests access the application through `window.jupyterapp`.
c.LabApp.expose_app_in_browser = True
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.handlers.announcements.NeverCheckForUpdate"
# Each page would ask whether Lab must be rebuilt, for which the server runs Node three times.
c.ServerApp.tornado_settings = {"page_config_data": {"buildCheck": False}}
