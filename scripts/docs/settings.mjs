// @ts-check
/** The tables of the settings, from the settings themselves. */
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';

/** @typedef {{ expected: string, toFile(value: unknown): unknown }} Kind */
/** @typedef {{ name: string, flag?: string, variable: string, kind: Kind, fallback: unknown, fallbackText?: string, help: string, aliases: readonly string[] }} Setting */

/** @returns {Promise<{ settings: string, 'settings-of-jupyter': string }>} */
export async function settingsTables() {
  const folder = path.join(checkout.root, 'kernel-bridge/lib/config');
  const { SETTING_KEYS, SETTINGS } = await import(path.join(folder, 'settings.js'));
  const { NOT_IN_FILE } = await import(path.join(folder, 'config-file.js'));
  const settings = SETTING_KEYS.map((/** @type {string} */ key) => SETTINGS[key]);
  const code = (/** @type {string | undefined} */ text) => (text === undefined ? '' : `\`${text}\``);
  return {
    settings: table(
      ['setting', 'flag', 'variable', 'accepted values', 'default', 'description', 'also called'],
      settings.map(
        (/** @type {Setting} */ { name, flag, variable, kind, fallback, fallbackText, help, aliases }) => [
          code(name),
          code(flag?.split(' ')[0]),
          code(variable),
          kind.expected,
          fallbackText ?? code(JSON.stringify(kind.toFile(fallback))),
          help,
          aliases.map(code).join(', ')
        ]
      )
    ),
    'settings-of-jupyter': table(
      ['Jupyter setting', 'why it is not here, and what to do'],
      Object.entries(/** @type {Record<string, { why: string }>} */ (NOT_IN_FILE)).map(([name, { why }]) => [
        code(name),
        why
      ])
    )
  };
}

/** @param {readonly string[]} head @param {readonly (readonly string[])[]} rows */
function table(head, rows) {
  const lines = [head, head.map(() => '---'), ...rows].map(row => `| ${row.join(' | ')} |`);
  return lines.join('\n');
}
