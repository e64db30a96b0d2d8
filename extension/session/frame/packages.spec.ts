// @vitest-environment jsdom
import { expect, it, vi } from 'vitest';

// jsdom lacks these, and widget packages need them at load.
vi.hoisted(() => Object.assign(globalThis, { DragEvent: class extends Event {} }));

const { loadPackage } = await import('./packages.js');

const requested: string[] = [];
const files: Record<string, string> = {
  'labextensions/chunked/package.json': JSON.stringify({
    jupyterlab: { _build: { load: 'static/remoteEntry.js', extension: './extension' } }
  }),
  'labextensions/chunked/static/remoteEntry.js': '',
  'labextensions/chunked/static/7.js': ''
};
const source = {
  file: async (name: string) => {
    requested.push(name);
    return files[name] ?? null;
  },
  moduleOf: (name: string) => ({ name })
};

/** Loads a chunk as webpack does. */
function loadChunk(address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.addEventListener('load', () => resolve());
    script.addEventListener('error', () => reject(new Error(address)));
    script.src = address;
    document.head.append(script);
  });
}

it("loads a labextension and its chunks, which webpack requests with a version, from the kernel's environment", async () => {
  const folder = 'https://installed.invalid/labextensions/chunked/static';
  const activate = (_: object, registry: { registerWidget(data: object): void }): void =>
    registry.registerWidget({ exports: () => ({ Model: 'model' }) });
  Object.assign(globalThis, {
    _JUPYTERLAB: {
      chunked: {
        init: async () => undefined,
        get: async () => {
          await loadChunk(`${folder}/7.js?v=0123abcd`);
          await expect(loadChunk(`${folder}/8.js?v=0123abcd`)).rejects.toThrow('8.js');
          return () => ({ default: [{ activate }] });
        }
      }
    }
  });
  expect(await loadPackage('chunked', source)).toEqual({ Model: 'model' });
  expect(requested).toEqual([
    'nbextensions/chunked/index.js',
    'labextensions/chunked/package.json',
    'labextensions/chunked/static/remoteEntry.js',
    'labextensions/chunked/static/7.js',
    'labextensions/chunked/static/8.js'
  ]);
});

it('names a package that has no front end in the environment', async () => {
  await expect(loadPackage('nothing', source)).rejects.toThrow(
    'the environment of the kernel has no front end of nothing'
  );
});
