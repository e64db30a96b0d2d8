// @ts-check
/**
 * The import rules of docs/architecture.md, checked by reading the import statements of every source file.
 *
 * A rule names the files that it covers and the modules that they may not import. Type-only imports of our own
 * modules count too: a layer that needs a type of a higher one has it in the wrong place. Type-only imports from
 * JupyterLab's packages do not: they are erased when the code runs, and the types have no other home.
 */
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';

/**
 * @typedef {{ path: string, source: string }} SourceFile path relative to the repository, with forward slashes
 * @typedef {{ path: string, line: number, module: string, rule: string }} Violation
 * @typedef {{ module: string, line: number, typeOnly: boolean, names: string[] }} Import names: what Python's `from … import` names
 * @typedef {{ why: string, files: (path: string) => boolean, forbids: (module: string, path: string, typeOnly: boolean) => boolean }} Rule
 */

/**
 * The floor plan of the bridge, lowest row first: a room imports only rooms of earlier rows, types included. A folder that is
 * missing in it fails.
 *
 * @type {readonly (readonly string[])[]}
 */
const BRIDGE_FLOORS = [
  ['jupyter'],
  ['journal', 'http'],
  ['keeper-protocol', 'devices'],
  ['keeper', 'keeper-client', 'environments'],
  ['files', 'kernels', 'session-page'],
  ['channels', 'outputs', 'preflight', 'sessions', 'telemetry'],
  ['remotes', 'config', 'sharing'],
  ['gateway'],
  ['cli', 'index.ts']
];
/**
 * Rooms with narrower imports than their row allows.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const BRIDGE_ONLY = {
  journal: ['jupyter'],
  http: [],
  'keeper-protocol': ['jupyter', 'journal'],
  devices: ['http'],
  keeper: ['jupyter', 'journal', 'keeper-protocol'],
  'keeper-client': ['journal', 'keeper-protocol'],
  environments: ['http'],
  files: ['http'],
  preflight: ['http', 'files', 'kernels'],
  'session-page': ['http']
};
/** Code that runs in the keeper, or communicates with it, is loaded for each kernel: it imports no package but `platform`. */
const BRIDGE_WITHOUT_PACKAGES = ['jupyter', 'journal', 'keeper-protocol', 'keeper'];
/** The gateway's lists on disk, checked by their schemas: the only file of `platform` with packages, so no keeper may import it. */
const STORED_LIST = 'stored-list';
/** Rooms of the bridge that know machines. The others work on the computer of the server alone. */
const BRIDGE_WITH_MACHINES = ['devices', 'environments', 'preflight', 'remotes', 'gateway', 'cli'];

/**
 * The floor plan of the package `machines`, with the bridge's rules. Its files at the root keep a connection, and know all rooms.
 *
 * @type {readonly (readonly string[])[]}
 */
const MACHINE_FLOORS = [
  ['chips', 'remote-error.ts'],
  ['environments', 'machine.ts'],
  ['ssh'],
  ['setup', 'gcloud', 'colab', 'sync'],
  ['slice']
];

/**
 * The floor plan of the Python package `tpulab`, with the bridge's rules: a room is a package, or a module at the root.
 *
 * @type {readonly (readonly string[])[]}
 */
const AGENT_FLOORS = [
  ['telemetry'],
  ['runtimes', 'control'],
  ['figures'],
  ['measure', 'memory'],
  ['compile'],
  ['agent'],
  ['check', 'training', 'widgets', 'loops.py', 'status.py'],
  ['launcher'],
  ['__init__.py', 'hf.py', 'slice']
];
/** @type {Readonly<Record<string, readonly string[]>>} */
const AGENT_ONLY = {
  slice: ['telemetry', 'runtimes', 'compile', 'agent', 'launcher'],
  figures: ['telemetry', 'runtimes'],
  measure: ['telemetry', 'runtimes', 'figures'],
  memory: ['telemetry', 'runtimes'],
  compile: ['telemetry', 'runtimes', 'figures', 'measure'],
  widgets: ['telemetry', 'runtimes', 'agent'],
  launcher: ['compile', 'agent', 'check']
};
/** The agent's rooms that are independent of frameworks, loaded or not. */
const AGENT_WITHOUT_FRAMEWORKS = ['telemetry', 'widgets', 'launcher'];

/**
 * The floor plan of the extension. Features meet in tokens: their exports for other features are in a `tokens.ts`.
 *
 * @type {readonly (readonly string[])[]}
 */
const EXTENSION_FLOORS = [
  ['text', 'platform', 'tokens.ts', 'commands.ts'],
  ['ui', 'backends'],
  ['kernels', 'remotes', 'devices'],
  ['events', 'launcher', 'preflight'],
  ['compilations', 'reattach'],
  ['steps', 'unreachable'],
  ['runs', 'slices'],
  ['panel', 'widgets'],
  ['status'],
  ['index.ts']
];

/** The floor plan of the session page, which uses rooms of the extension. */
const SESSION_FLOORS = [
  ['text.ts', 'environment.ts', 'frame', 'kit'],
  ['files'],
  ['notebook'],
  ['page'],
  ['runtime'],
  ['shell'],
  ['main.tsx']
];

/** Rooms of `tpulab_recipes`, lowest row first; a row imports only earlier rows. A folder without a row is a recipe. */
const RECIPE_LAYERS = [
  ['runtime'],
  ['compile_ahead'],
  ['common'],
  ['torch_training', 'digits'],
  ['audio', 'images']
];

const APPLICATION_PARTS =
  /^@jupyterlab\/(application|console|launcher|mainmenu|notebook|settingregistry|statusbar)(\/|$)/;
const VIEW_PARTS = /^(react|react-dom|uplot|@lumino\/(widgets|messaging|virtualdom|dragdrop|commands))(\/|$)/;
const VIEW_KITS = /^@jupyterlab\/(ui-components|apputils)(\/|$)/;
const VIEW_FILE = /(\.tsx|\/charts\/[a-z-]+\.ts|\/([a-z-]*plugin|icons?|use-[a-z-]+)\.ts)$/;
/** Folders without import cycles. */
const NO_CYCLES =
  /^((platform|machines|kernel-bridge|extension)\/src\/.*\.tsx?|extension\/session\/.*\.tsx?|kernel-agent\/src\/.*\.py)$/;
const BACKENDS_PLUGIN = 'extension/src/backends/plugin.ts';
const SPEC_FILE = /\.spec(-[a-z]+)?\.tsx?$|\/testing\//;

/** @type {Rule[]} */
export const RULES = [
  {
    why: 'protocol imports nothing of ours and nothing of Node',
    files: path => path.startsWith('protocol/src/') && !SPEC_FILE.test(path),
    forbids: module =>
      module.startsWith('@tpulab/') || module.startsWith('node:') || module.startsWith('@jupyterlab/')
  },
  {
    why: 'platform imports of ours only the protocol, and packages in one file',
    files: path => path.startsWith('platform/src/') && !SPEC_FILE.test(path),
    forbids: (module, path) =>
      !/^(\.\/[\w-]+\.js|node:.*|@tpulab\/protocol)$/.test(module) && !path.endsWith(`/${STORED_LIST}.ts`)
  },
  {
    why: 'machines import of ours only the protocol and platform: a machine knows nothing of kernels',
    files: path => path.startsWith('machines/src/') && !SPEC_FILE.test(path),
    forbids: (module, path) =>
      module.startsWith('@jupyterlab/') ||
      (module.startsWith('@tpulab/') && !/^@tpulab\/(protocol$|platform\/)/.test(module)) ||
      (module.startsWith('.') && !resolveRelative(path, module).startsWith('machines/src/'))
  },
  {
    why: `inside machines the order is ${MACHINE_FLOORS.map(row => row.join(', ')).join(' ← ')} ← the files that keep a connection`,
    files: path => machineRoom(path) !== null && !SPEC_FILE.test(path),
    forbids: (module, path) => {
      const [from, to] = [machineRoom(path), machineRoom(resolveRelative(path, module))];
      const isIn = (/** @type {string | null} */ room) => MACHINE_FLOORS.flat().includes(room ?? '');
      return to !== null && isIn(from) && (!isIn(to) || pointsUp(MACHINE_FLOORS, {}, from, to));
    }
  },
  {
    why: 'the bridge imports of ours only the protocol, platform, and the entries of machines',
    files: path => path.startsWith('kernel-bridge/src/'),
    forbids: module =>
      module.startsWith('@jupyterlab/') ||
      (module.startsWith('@tpulab/') &&
        !/^@tpulab\/(protocol$|platform\/|machines(\/environments)?$)/.test(module))
  },
  {
    why: `of the bridge, only ${BRIDGE_WITH_MACHINES.join(', ')} know machines`,
    files: path => !BRIDGE_WITH_MACHINES.includes(bridgeRoom(path) ?? 'gateway') && !SPEC_FILE.test(path),
    forbids: (module, path) =>
      module.startsWith('@tpulab/machines') || resolveRelative(path, module).startsWith('machines/')
  },
  {
    why: 'product code reaches other packages by their names',
    files: path => bridgeRoom(path) !== null && !SPEC_FILE.test(path),
    forbids: (module, path) =>
      module.startsWith('.') && !resolveRelative(path, module).startsWith('kernel-bridge/')
  },
  {
    why: `inside the bridge the order is ${BRIDGE_FLOORS.map(row => row.join(', ')).join(' ← ')}`,
    files: path => bridgeRoom(path) !== null && !SPEC_FILE.test(path),
    forbids: (module, path) => {
      const to = bridgeRoom(resolveRelative(path, module));
      return pointsUp(BRIDGE_FLOORS, BRIDGE_ONLY, bridgeRoom(path), to);
    }
  },
  {
    why: `no package is imported in ${BRIDGE_WITHOUT_PACKAGES.join(', ')}`,
    files: path => BRIDGE_WITHOUT_PACKAGES.includes(bridgeRoom(path) ?? '') && !SPEC_FILE.test(path),
    forbids: module =>
      !/^(\.|node:|@tpulab\/protocol$|@tpulab\/platform\/)/.test(module) ||
      module.endsWith(`/${STORED_LIST}.js`)
  },
  {
    why: 'only specs import what is in a folder testing',
    files: path => /^(platform|machines|kernel-bridge)\/src\//.test(path) && !SPEC_FILE.test(path),
    forbids: module => module.startsWith('.') && module.includes('/testing/')
  },
  {
    why: 'the extension talks to the bridge through the protocol, and has no Node',
    files: path => path.startsWith('extension/src/') && !SPEC_FILE.test(path),
    forbids: module =>
      module.startsWith('node:') ||
      module === 'ws' ||
      (module.startsWith('@tpulab/') && module !== '@tpulab/protocol')
  },
  {
    why: 'only plugin.ts imports parts of the JupyterLab application',
    files: path =>
      path.startsWith('extension/src/') &&
      !SPEC_FILE.test(path) &&
      !/\/([a-z-]*plugin|index|tokens)\.ts$/.test(path),
    forbids: (module, _path, typeOnly) => !typeOnly && APPLICATION_PARTS.test(module)
  },
  {
    why: `inside the extension the order is ${EXTENSION_FLOORS.map(row => row.join(', ')).join(' ← ')}`,
    files: path => extensionRoom(path) !== null && !SPEC_FILE.test(path),
    forbids: (module, path) =>
      pointsUp(EXTENSION_FLOORS, {}, extensionRoom(path), extensionRoom(resolveRelative(path, module)))
  },
  {
    why: `inside the session page the order is ${SESSION_FLOORS.map(row => row.join(', ')).join(' ← ')}`,
    files: path => sessionRoom(path) !== null && !SPEC_FILE.test(path),
    forbids: (module, path) =>
      pointsUp(SESSION_FLOORS, {}, sessionRoom(path), sessionRoom(resolveRelative(path, module)))
  },
  {
    why: 'rooms of the extension know nothing of the session page',
    files: path => extensionRoom(path) !== null,
    forbids: (module, path) => resolveRelative(path, module).startsWith('extension/session/')
  },
  {
    why: 'a page may have other backends: only backends/plugin.ts and specs know the class',
    files: path => extensionRoom(path) !== null && !SPEC_FILE.test(path) && path !== BACKENDS_PLUGIN,
    forbids: (module, path) => resolveRelative(path, module) === 'extension/src/backends/backends.js'
  },
  {
    why: 'models know nothing of React, Lumino widgets or JupyterLab views',
    files: path => path.startsWith('extension/src/') && !SPEC_FILE.test(path) && !VIEW_FILE.test(path),
    forbids: (module, _path, typeOnly) => !typeOnly && (VIEW_PARTS.test(module) || VIEW_KITS.test(module))
  },
  {
    why: 'nobody reaches into the inside of a JupyterLab package',
    files: path => path.startsWith('extension/src/'),
    forbids: module => /^@jupyterlab\/[^/]+\/lib\//.test(module)
  },
  {
    why: 'only tpulab_recipes.runtime and compile_ahead import torch_xla or torch_tpu',
    files: path => path.endsWith('.py') && !KNOWS_TORCH_XLA.test(path),
    forbids: module => /^(torch_xla|torch_tpu)(\.|$)/.test(module)
  },
  {
    why: 'the agent imports jax and torch only after the user has',
    files: path => path.startsWith('kernel-agent/src/'),
    forbids: module => /^top-level:(jax|jaxlib|flax|torch)(\.|$)/.test(module)
  },
  {
    why: `inside the agent the order is ${AGENT_FLOORS.map(row => row.join(', ')).join(' ← ')}`,
    files: path => agentRoom(path) !== null,
    forbids: (module, path) => pointsUp(AGENT_FLOORS, AGENT_ONLY, agentRoom(path), agentRoomOf(module))
  },
  {
    why: 'the agent names its own modules in full',
    files: path => agentRoom(path) !== null,
    forbids: module => module.startsWith('.')
  },
  {
    why: `no framework is imported in ${AGENT_WITHOUT_FRAMEWORKS.join(', ')}`,
    files: path => AGENT_WITHOUT_FRAMEWORKS.includes(agentRoom(path) ?? ''),
    forbids: module => /^(jax|jaxlib|flax|torch|torch_xla)(\.|$)/.test(module)
  },
  {
    why: 'a kernel starts even where the agent cannot: the launcher imports it inside functions',
    files: path => agentRoom(path) === 'launcher',
    forbids: module => /^top-level:tpulab\.agent(\.|$)/.test(module)
  },
  {
    why: `inside the recipes the order is ${RECIPE_LAYERS.map(row => row.join(', ')).join(' ← ')} ← the recipes, never one another`,
    files: path => recipeRoom(path) !== null,
    forbids: (module, path) => {
      const [from, to] = [recipeRoom(path), recipeRoom(`recipes/src/${module.replaceAll('.', '/')}/`)];
      if (from === null || to === null || from === to) return false;
      const row = (/** @type {string} */ room) => {
        const found = RECIPE_LAYERS.findIndex(names => names.includes(room));
        return found < 0 ? RECIPE_LAYERS.length : found;
      };
      return row(to) >= row(from);
    }
  },
  {
    why: 'recipes never import JupyterLab',
    files: path => path.startsWith('recipes/'),
    forbids: module => /^(jupyterlab|jupyter_server)(\.|$)/.test(module)
  }
];

/** The seam, the agent's adapters with their tests, and the smoke tests, which test the packages themselves. */
const KNOWS_TORCH_XLA =
  /^(recipes\/src\/tpulab_recipes\/(runtime|compile_ahead)\/|recipes\/tests\/|kernel-agent\/|environments\/[\w-]+\/smoke_test\.py|bench\/)/;

/** Names of the browser that a `model.ts` may not use. */
const DOM_WORDS =
  /(?<![.\w'"])(document\.(?:body|head|hidden|visibilityState|create|querySelector|getElement|addEvent)|window\.|navigator\.|HTML[A-Z]\w*Element|requestAnimationFrame)/;

/** @param {SourceFile[]} files @returns {Violation[]} */
export function findViolations(files) {
  return [
    ...files.flatMap(file => [...importViolations(file), ...domViolations(file)]),
    ...cycleViolations(files),
    ...publicNameViolations(files)
  ];
}

/** Imports by which a file reaches itself again, in folders without cycles. @param {SourceFile[]} files @returns {Violation[]} */
function cycleViolations(files) {
  const inside = new Map(
    files.filter(({ path }) => NO_CYCLES.test(path) && !SPEC_FILE.test(path)).map(file => [file.path, file])
  );
  /** @type {Violation[]} */
  const found = [];
  const done = new Set();
  /** @param {SourceFile} file @param {string[]} above files that import one another down to this one */
  const visit = (file, above) => {
    const way = [...above, file.path];
    for (const { module, line, target } of importsOf(file).flatMap(targetsOf(file))) {
      const to = inside.get(target);
      if (to === undefined || done.has(to.path)) continue;
      const start = way.indexOf(to.path);
      if (start < 0) visit(to, way);
      else {
        const circle = [...way.slice(start), to.path].map(path => posix.basename(path)).join(' → ');
        found.push({ path: file.path, line, module, rule: `no imports in a circle: ${circle}` });
      }
    }
    done.add(file.path);
  };
  for (const file of inside.values()) if (!done.has(file.path)) visit(file, []);
  return found;
}

/**
 * The files to which an import may resolve.
 *
 * @param {SourceFile} file
 * @returns {(found: Import) => { module: string, line: number, target: string }[]}
 */
function targetsOf(file) {
  if (!file.path.endsWith('.py'))
    return ({ module, line }) => [
      ...['.ts', '.tsx'].map(end => ({
        module,
        line,
        target: resolveRelative(file.path, module).replace(/\.js$/, end)
      }))
    ];
  return ({ module, line, names }) =>
    [module, ...names.map(name => `${module}.${name}`)].flatMap(each => {
      const place = `kernel-agent/src/${each.replaceAll('.', '/')}`;
      // A package's own file counts for an import of its own names, not on the way to its modules.
      return [`${place}.py`, ...(each === module ? [`${place}/__init__.py`] : [])]
        .filter(target => target !== file.path)
        .map(target => ({ module: each, line, target }));
    });
}

/**
 * Importing a package makes its name a name of the package above: `tpulab.steps` would be a module, not a function.
 *
 * @param {SourceFile[]} files
 * @returns {Violation[]}
 */
function publicNameViolations(files) {
  const root = 'kernel-agent/src/tpulab/';
  const homes = files.find(({ path }) => path === `${root}__init__.py`)?.source ?? '';
  return [...homes.matchAll(/^ {4}"(\w+)": "tpulab\.[\w.]+",$/gm)].flatMap(([, name = '']) => {
    const inside = files.find(({ path }) => path.startsWith(`${root}${name}/`));
    if (inside === undefined) return [];
    return [{ path: inside.path, line: 1, module: `tpulab.${name}`, rule: 'no package bears a public name' }];
  });
}

/** @param {SourceFile} file @returns {Violation[]} */
function importViolations(file) {
  const rules = RULES.filter(rule => rule.files(file.path));
  if (rules.length === 0) return [];
  return importsOf(file).flatMap(({ module, line, typeOnly }) =>
    rules
      .filter(rule => rule.forbids(module, file.path, typeOnly))
      .map(rule => ({ path: file.path, line, module: module.replace(/^top-level:/, ''), rule: rule.why }))
  );
}

/** @param {SourceFile} file @returns {Violation[]} */
function domViolations(file) {
  if (!/^extension\/src\/.*(^|\/)model\.ts$/.test(file.path)) return [];
  return withoutComments(file.source)
    .split('\n')
    .flatMap((text, index) => {
      const word = DOM_WORDS.exec(text)?.[1];
      if (word === undefined) return [];
      return [{ path: file.path, line: index + 1, module: word, rule: 'a model does not touch the DOM' }];
    });
}

/** @param {SourceFile} file @returns {Import[]} */
export function importsOf(file) {
  return file.path.endsWith('.py') ? pythonImports(file.source) : scriptImports(file.source);
}

/** @param {string} source */
function scriptImports(source) {
  const text = withoutComments(source);
  const pattern =
    /(?:^|[\n;])\s*(?:import|export)\s[^'";]*?from\s*['"]([^'"]+)['"]|(?:^|[\n;])\s*import\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/g;
  return [...text.matchAll(pattern)].map(match => ({
    module: match[1] ?? match[2] ?? match[3] ?? '',
    line: lineAt(text, match.index + match[0].length),
    typeOnly: /^[\s;]*(?:import|export)\s+type\s/.test(match[0]),
    names: []
  }));
}

/**
 * Python imports; an unindented one is also returned as `top-level:NAME`, because it runs at import time.
 *
 * @param {string} source
 */
function pythonImports(source) {
  /** @type {Import[]} */
  const found = [];
  const lines = source.split('\n');
  lines.forEach((text, index) => {
    const match = /^(\s*)(?:from\s+([\w.]+)\s+import\b|import\s+([\w., ]+))/.exec(text);
    if (!match) return;
    const modules =
      match[2] !== undefined
        ? [match[2]]
        : (match[3] ?? '').split(',').map(part => part.trim().split(' ')[0] ?? '');
    const names = match[2] !== undefined ? importedNames(lines.slice(index).join('\n')) : [];
    for (const module of modules) {
      const at = { line: index + 1, typeOnly: false, names };
      found.push({ module, ...at });
      if (match[1] === '') found.push({ module: `top-level:${module}`, ...at });
    }
  });
  return found;
}

/** @param {string} text that begins with `from … import`, in one line or in brackets */
function importedNames(text) {
  const list = /^\s*from\s+[\w.]+\s+import\s+(?:\(([^)]*)\)|([^\n#]*))/.exec(text);
  return (list?.[1] ?? list?.[2] ?? '')
    .replace(/#[^\n]*/g, '')
    .split(',')
    .map(part => part.trim().split(/\s/)[0] ?? '')
    .filter(Boolean);
}

/** Comments become blanks of the same length, so that line numbers stay. @param {string} source */
function withoutComments(source) {
  return source.replace(/\/\*[\s\S]*?\*\/|(?<![:'"`\w])\/\/[^\n]*/g, comment =>
    comment.replace(/[^\n]/g, ' ')
  );
}

/** @param {string} text @param {number} offset */
function lineAt(text, offset) {
  return text.slice(0, offset).split('\n').length;
}

/** @param {string} path @param {string} module */
function resolveRelative(path, module) {
  return module.startsWith('.') ? posix.join(posix.dirname(path), module) : module;
}

/** @param {string} path the room of kernel-bridge/src, which is a folder or a file at its root, or null */
function bridgeRoom(path) {
  return /^kernel-bridge\/src\/([\w.-]+)/.exec(path)?.[1]?.replace(/\.js$/, '.ts') ?? null;
}

/** @param {string} path the room of machines/src, which is a folder or a file at its root, or null */
function machineRoom(path) {
  return /^machines\/src\/([\w.-]+)/.exec(path)?.[1]?.replace(/\.js$/, '.ts') ?? null;
}

/** @param {string} path the room of extension/src, which is a folder or a file at its root, or null */
function extensionRoom(path) {
  return /^extension\/src\/([\w.-]+)/.exec(path)?.[1]?.replace(/\.js$/, '.ts') ?? null;
}

/** @param {string} path the room of extension/session, which is a folder or a file at its root, or null */
function sessionRoom(path) {
  return /^extension\/session\/([\w.-]+)/.exec(path)?.[1]?.replace(/\.js$/, '.ts') ?? null;
}

/** @param {string} path the package under tpulab, or a module at its root, or null */
function agentRoom(path) {
  return /^kernel-agent\/src\/tpulab\/(\w+(?:\.py)?)/.exec(path)?.[1] ?? null;
}

/** @param {string} module the agent's room that contains it, or null */
function agentRoomOf(module) {
  const [root, name = '__init__'] = module.split('.');
  if (root !== 'tpulab') return null;
  return AGENT_FLOORS.flat().includes(name) ? name : `${name}.py`;
}

/**
 * Whether a room may not import another: it is in no lower row, or not in its narrower list. A room in no row imports none.
 *
 * @param {readonly (readonly string[])[]} floors
 * @param {Readonly<Record<string, readonly string[]>>} only
 * @param {string | null} from
 * @param {string | null} to
 */
function pointsUp(floors, only, from, to) {
  if (from === null || to === null || from === to) return false;
  if (only[from]?.includes(to) === false) return true;
  const row = (/** @type {string} */ room) => floors.findIndex(rooms => rooms.includes(room));
  return row(from) < 0 || row(to) < 0 || row(to) >= row(from);
}

/** @param {string} path the folder under tpulab_recipes, or null */
function recipeRoom(path) {
  return /^recipes\/src\/tpulab_recipes\/(\w+)\//.exec(path)?.[1] ?? null;
}

/** @param {string} root @param {string[]} paths @returns {SourceFile[]} */
export function readSources(root, paths) {
  return paths
    .filter(path => /\.(ts|tsx|py)$/.test(path) && !path.endsWith('.d.ts'))
    .map(path => ({ path, source: readFileSync(`${root}/${path}`, 'utf8') }));
}
