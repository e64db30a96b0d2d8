/** `tpulab serve --print-config`: all settings as a TOML file that would set the same, with where each value comes from. */
import { stringify } from 'smol-toml';
import type { ResolvedSettings } from './resolve-settings.js';
import { SETTING_KEYS, type SettingKey, SETTINGS } from './settings.js';

export function printSettings({ values, sources }: ResolvedSettings): string {
  const sections = new Map<string, SettingKey[]>();
  for (const key of SETTING_KEYS) {
    const section = SETTINGS[key].name.split('.')[0] ?? '';
    sections.set(section, [...(sections.get(section) ?? []), key]);
  }
  const parts = [...sections].map(([section, keys]) => {
    const lines = keys.map(key => line(key, values[key], sources[key]));
    return `[${section}]\n${lines.join('')}`;
  });
  return parts.join('\n');
}

function line(key: SettingKey, value: unknown, source: string): string {
  const { name, help, fallbackWords, isSecret } = SETTINGS[key];
  const trait = name.slice(name.indexOf('.') + 1);
  const comment = `# ${help} (${source})\n`;
  // TOML has no null, and a secret is not printed.
  if (value === null) return `${comment}# ${trait} = # ${fallbackWords ?? 'not set'}\n`;
  if (isSecret) return `${comment}# ${trait} = # given, not shown\n`;
  return `${comment}${stringify({ [trait]: value }).trimEnd()}\n`;
}
