// @ts-check
/** The front ends of the widgets: one ES module each, into the Python package that sends them to pages without our extension. */
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { SetupProblem } from './setup-problem.mjs';

const SOURCES = path.join(checkout.root, 'extension/src/widgets/afm');
export const WIDGET_FILES = path.join(checkout.root, 'kernel-agent/src/tpulab/widgets/static');
export const WIDGETS = ['device-monitor', 'step-timeline', 'training-controls'];

export async function buildWidgets() {
  const { build } = await import('vite');
  await rm(WIDGET_FILES, { recursive: true, force: true });
  for (const name of WIDGETS) {
    try {
      await build({
        configFile: false,
        root: checkout.root,
        logLevel: 'error',
        // Types of the protocol are erased; what is left of it is nothing, but the name must be found.
        resolve: { alias: { '@tpulab/protocol': path.join(checkout.root, 'protocol/src/index.ts') } },
        build: {
          outDir: WIDGET_FILES,
          emptyOutDir: false,
          target: 'es2022',
          lib: { entry: path.join(SOURCES, `${name}.ts`), formats: ['es'], fileName: () => `${name}.js` }
        }
      });
    } catch (error) {
      throw new SetupProblem(
        'failed',
        `The widget ${name} was not built: ${error instanceof Error ? error.message : String(error)}`
      );
    }
  }
}
