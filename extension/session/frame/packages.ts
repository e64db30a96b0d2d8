/**
 * The front ends of widget packages, as their Python packages install them: a module for RequireJS below `nbextensions`, or webpack
 * chunks below `labextensions`. The page passes both on as text.
 */
import * as base from '@jupyter-widgets/base';
import * as controls from '@jupyter-widgets/controls';
import * as coreutils from '@lumino/coreutils';
import * as messaging from '@lumino/messaging';
import * as luminoWidgets from '@lumino/widgets';

/** The source of files and other modules. */
export interface Source {
  file(name: string): Promise<string | null>;
  moduleOf(name: string): Promise<unknown> | object;
}

type Factory = (...modules: unknown[]) => unknown;
type Container = {
  init(scope: object): Promise<void>;
  get(name: string): Promise<() => { default?: unknown } & Record<string, unknown>>;
};

/** No server listens at this address: a chunk requested below it is read from the package. */
const INSTALLED = 'https://installed.invalid/';
const loaded = new Map<string, Promise<unknown>>();
const defined: { needs: readonly string[]; factory: Factory | object } = { needs: [], factory: {} };

export function loadPackage(name: string, source: Source): Promise<unknown> {
  let found = loaded.get(name);
  if (found === undefined) {
    found = load(name, source);
    loaded.set(name, found);
  }
  return found;
}

async function load(name: string, source: Source): Promise<unknown> {
  const text = await source.file(`nbextensions/${name}/index.js`);
  if (text !== null) return amdModule(text, source, `${INSTALLED}nbextensions/${name}/index.js`);
  const description = await source.file(`labextensions/${name}/package.json`);
  if (description !== null) return federatedModule(name, description, source);
  throw new Error(`the environment of the kernel has no front end of ${name}`);
}

/** The part of RequireJS that widgets use. */
export function addDefine(source: Source): void {
  const define = (...given: unknown[]): void => {
    const factory = given.pop() as Factory | object;
    const needs = given.find(Array.isArray) as string[] | undefined;
    Object.assign(defined, { needs: needs ?? [], factory });
  };
  const require = (names: string[] | string, then?: Factory): unknown => {
    if (typeof names === 'string') return undefined;
    return Promise.all(names.map(async name => source.moduleOf(name))).then(modules => then?.(...modules));
  };
  const config = { config: () => undefined };
  Object.assign(globalThis, {
    define: Object.assign(define, { amd: {} }),
    require: Object.assign(require, config),
    requirejs: Object.assign(require, config)
  });
}

async function amdModule(text: string, source: Source, address: string): Promise<unknown> {
  Object.assign(defined, { needs: [], factory: {} });
  const script = document.createElement('script');
  // Code that looks up its own address finds it.
  Object.defineProperty(script, 'src', { value: address });
  script.textContent = text;
  document.head.append(script);
  const { needs, factory } = { ...defined };
  const exports = {};
  const module = { exports };
  const modules = await Promise.all(
    needs.map(async need =>
      need === 'exports'
        ? exports
        : need === 'module'
          ? module
          : need === 'require'
            ? null
            : source.moduleOf(need)
    )
  );
  if (typeof factory !== 'function') return factory;
  return (await (factory as Factory)(...modules)) ?? module.exports;
}

/** A labextension: its container returns the plugins, which register the module in JupyterLab's widget registry. */
async function federatedModule(name: string, description: string, source: Source): Promise<unknown> {
  const { jupyterlab } = JSON.parse(description) as {
    jupyterlab?: { _build?: { load?: string; extension?: string } };
  };
  const { load: entry = '', extension = './extension' } = jupyterlab?._build ?? {};
  const folder = `${INSTALLED}labextensions/${name}/`;
  receiveChunks(source);
  await new Promise<void>((resolve, reject) => {
    const script = document.createElement('script');
    script.src = `${folder}${entry}`;
    script.addEventListener('load', () => resolve());
    script.addEventListener('error', () => reject(new Error(`${name}: ${entry} is missing`)));
    document.head.append(script);
  });
  const container = (globalThis as { _JUPYTERLAB?: Record<string, Container> })._JUPYTERLAB?.[name];
  if (container === undefined) throw new Error(`${name} is not a JupyterLab extension`);
  await container.init(sharedModules());
  const plugins = (await container.get(extension))().default;
  let exports: unknown = null;
  const registry = { registerWidget: (data: { exports: unknown }) => (exports = data.exports) };
  for (const plugin of [plugins].flat() as { activate?: (app: object, ...needs: object[]) => unknown }[])
    await plugin.activate?.({}, registry);
  return typeof exports === 'function' ? (exports as () => unknown)() : exports;
}

function sharedModules(): object {
  const shared = (version: string, module: object): object => ({
    [version]: { get: async () => () => module, from: 'tpulab', loaded: 1, eager: true }
  });
  return {
    '@jupyter-widgets/base': shared(base.JUPYTER_WIDGETS_VERSION, base),
    '@jupyter-widgets/controls': shared(controls.JUPYTER_CONTROLS_VERSION, controls),
    '@lumino/coreutils': shared('2.2.2', coreutils),
    '@lumino/messaging': shared('2.0.4', messaging),
    '@lumino/widgets': shared('2.7.2', luminoWidgets)
  };
}

let receivesChunks = false;

/** webpack loads a chunk as a script whose address is below the first chunk's address. */
function receiveChunks(source: Source): void {
  if (receivesChunks) return;
  receivesChunks = true;
  const { src } = Object.getOwnPropertyDescriptors(HTMLScriptElement.prototype);
  Object.defineProperty(HTMLScriptElement.prototype, 'src', {
    ...src,
    set(this: HTMLScriptElement, address: string) {
      if (!address.startsWith(INSTALLED)) {
        src.set?.call(this, address);
        return;
      }
      // Code that looks up its own address finds it.
      Object.defineProperty(this, 'src', { value: address });
      // webpack appends the version to chunk addresses as a query.
      void source.file(new URL(address).pathname.slice(1)).then(text => {
        if (text === null) this.dispatchEvent(new Event('error'));
        else {
          this.textContent = text;
          this.dispatchEvent(new Event('load'));
        }
      });
    }
  });
}
