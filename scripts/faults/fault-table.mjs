// @ts-check
/** The marks of the fault cases as a table in Markdown, which a terminal shows as well as a page does. */

/**
 * @typedef {object} Row
 * @property {string} case
 * @property {string} client
 * @property {number} expected
 * @property {number} lost
 * @property {number} doubled
 * @property {number} reordered
 * @property {number} replyFaults
 * @property {number | null} gap
 * @property {readonly string[]} reported
 * @property {number} cutOff
 * @property {number | null} catchUpMs
 * @property {string} note
 */

const HEAD = ['case', 'client', 'outputs', 'lost', 'doubled', 'reordered', 'caught up in', 'remarks'];
/** Columns of figures. */
const RIGHT = new Set([2, 3, 4, 5, 6]);

/** @param {readonly Row[]} rows */
export function faultTable(rows) {
  const cells = [HEAD, ...[...rows].sort(byCase(rows)).map(cellsOf)];
  const widths = HEAD.map((_, column) => Math.max(...cells.map(line => line[column]?.length ?? 0)));
  const rule = widths.map(
    (width, column) => '-'.repeat(RIGHT.has(column) ? width - 1 : width) + (RIGHT.has(column) ? ':' : '')
  );
  const pad = (/** @type {string} */ text, /** @type {number} */ column) =>
    RIGHT.has(column) ? text.padStart(widths[column] ?? 0) : text.padEnd(widths[column] ?? 0);
  const [head = [], ...body] = cells.map(line => line.map(pad));
  return [head, rule, ...body].map(line => `| ${line.join(' | ')} |`).join('\n');
}

/** In the order in which the cases came, the stock client first. @param {readonly Row[]} rows */
function byCase(rows) {
  const order = [...new Set(rows.map(row => row.case))];
  return (/** @type {Row} */ one, /** @type {Row} */ other) =>
    order.indexOf(one.case) - order.indexOf(other.case) || other.client.localeCompare(one.client);
}

/** @param {Row} row */
function cellsOf(row) {
  return [
    row.case,
    row.client,
    ...[row.expected, row.lost, row.doubled, row.reordered].map(String),
    row.catchUpMs === null ? 'never' : `${row.catchUpMs} ms`,
    remarks(row)
  ];
}

/** @param {Row} row */
function remarks({ lost, gap, reported, cutOff, replyFaults, note }) {
  return [
    reported.length > 0 ? `${gap === null ? 'unknown number' : gap} reported missing` : '',
    reported.length === 0 && lost > 0 ? 'lost silently' : '',
    cutOff > 0 ? `${cutOff} lost with the killed process` : '',
    replyFaults > 0 ? `${replyFaults} replies missing or duplicated` : '',
    note
  ]
    .filter(Boolean)
    .join('; ');
}
