// @ts-check
/** Lines and files of each room of the project: a folder of a package, its code and its tests separately. */

/**
 * @typedef {{ files: number, lines: number }} Size
 * @typedef {{ code: Size, tests: Size }} Room
 */

const CODE = /\.(ts|tsx|mts|mjs|js|py|sh|css)$/;
const TESTS = /\.spec\.\w+$|\/(testing|tests)\/|(^|\/)(test_\w+|conftest)\.py$/;

/** Where a package's rooms begin, each with the package's name. */
const PACKAGES = /** @type {const} */ ([
  ['protocol', /^protocol\/src\//],
  ['platform', /^platform\/src\//],
  ['machines', /^machines\/(src\/|(?=host\/))/],
  ['kernel-bridge', /^kernel-bridge\/(src\/|(?=host\/))/],
  ['extension', /^extension\/(src\/|(?=(?:jupyterlab_tpulab|session)\/))/],
  ['style', /^style\//],
  ['kernel-agent', /^kernel-agent\/(src\/tpulab|tests)\//],
  ['recipes', /^recipes\/(src\/tpulab_recipes|tests)\//]
]);

/**
 * @param {string} file relative to the checkout
 * @returns {{ room: string, isTest: boolean } | null} null: no code of a package
 */
export function roomOf(file) {
  if (!CODE.test(file)) return null;
  for (const [name, begin] of PACKAGES) {
    if (!begin.test(file)) continue;
    const [folder, ...more] = file.replace(begin, '').split('/');
    return { room: more.length === 0 ? name : `${name}/${folder}`, isTest: TESTS.test(file) };
  }
  return null;
}

/**
 * @param {Iterable<readonly [file: string, lines: number]>} files
 * @returns {Map<string, Room>} by the name of the room
 */
export function sizesOf(files) {
  /** @type {Map<string, Room>} */
  const rooms = new Map();
  for (const [file, lines] of files) {
    const place = roomOf(file);
    if (place === null) continue;
    const room = rooms.get(place.room) ?? empty();
    const size = place.isTest ? room.tests : room.code;
    size.files += 1;
    size.lines += lines;
    rooms.set(place.room, room);
  }
  return rooms;
}

/**
 * @param {ReadonlyMap<string, Room>} now
 * @param {ReadonlyMap<string, Room>} before
 * @returns {string[]} the lines of a table: each present or former room, each package as a whole, and all packages
 */
export function tableOf(now, before) {
  const names = [...new Set([...now.keys(), ...before.keys()])].sort();
  const lines = [row('', 'code', 'files', 'since', 'tests', 'files', 'since')];
  for (const [name] of PACKAGES) {
    const own = names.filter(room => room === name || room.startsWith(`${name}/`));
    if (own.length === 0) continue;
    lines.push('', rowOf(name, sum(own, now), sum(own, before)));
    for (const room of own.length > 1 ? own : []) {
      const label = room === name ? '.' : room.slice(name.length + 1);
      lines.push(rowOf(`  ${label}`, now.get(room) ?? empty(), before.get(room) ?? empty()));
    }
  }
  lines.push('', rowOf('all', sum(names, now), sum(names, before)));
  return lines;
}

/** @returns {Room} */
const empty = () => ({ code: { files: 0, lines: 0 }, tests: { files: 0, lines: 0 } });

/**
 * @param {readonly string[]} names
 * @param {ReadonlyMap<string, Room>} rooms
 */
function sum(names, rooms) {
  const all = empty();
  for (const name of names) {
    for (const kind of /** @type {const} */ (['code', 'tests'])) {
      all[kind].files += rooms.get(name)?.[kind].files ?? 0;
      all[kind].lines += rooms.get(name)?.[kind].lines ?? 0;
    }
  }
  return all;
}

/**
 * @param {string} label
 * @param {Room} now
 * @param {Room} before
 */
function rowOf(label, now, before) {
  const cells = /** @type {const} */ (['code', 'tests']).flatMap(kind => [
    now[kind].lines,
    now[kind].files,
    grown(now[kind].lines - before[kind].lines)
  ]);
  return row(label, ...cells);
}

const grown = (/** @type {number} */ lines) => (lines === 0 ? '' : lines > 0 ? `+${lines}` : `${lines}`);

/**
 * @param {string} label
 * @param {readonly (string | number)[]} cells
 */
function row(label, ...cells) {
  return (label.padEnd(22) + cells.map(cell => String(cell).padStart(8)).join('')).trimEnd();
}
