/** Paths of the parts under test in this checkout. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const CHECKOUT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const NOTEBOOKS = join(CHECKOUT, 'notebooks');
export const LESSON = '00-getting-started.ipynb';
/** The environment of the JupyterLab under test; the smoke lane has one with other people's extensions. */
export const LAB_ENV = process.env['TPULAB_LAB_ENV'] ?? join(CHECKOUT, '.tpulab', 'lab');
export const ENV_DIR = process.env['TPULAB_ENV_DIR'] ?? join(CHECKOUT, '.tpulab', 'envs');
export const BRIDGE_ENTRY = join(CHECKOUT, 'kernel-bridge', 'bin', 'tpulab.js');
export const LABEXTENSION = join(CHECKOUT, 'extension', 'jupyterlab_tpulab', 'labextension');
export const LABEXTENSION_NAME = '@tpulab/labextension';
export const PROBES = join(CHECKOUT, 'tests', 'probes');
export const IMAGES = join(CHECKOUT, 'docs', 'images');
/** An environment with third-party widgets and outputs, and its own kernel. */
export const OTHERS_PYTHON = join(CHECKOUT, '.tpulab', 'test', 'agent', 'bin', 'python');
/** Pattern of the folder with packages that are not part of TPULab's own environments, including the real anywidget. */
export const OTHER_PACKAGES = join(CHECKOUT, '.tpulab', 'test', 'agent', 'lib', 'python*', 'site-packages');
