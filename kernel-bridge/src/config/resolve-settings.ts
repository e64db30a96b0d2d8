/** Combines the settings: a flag overrides a variable, a variable the file, the file the default. */
import { ConfigError, type FileSettings } from './config-file.js';
import { INVALID } from './setting-kinds.js';
import { SETTING_KEYS, type SettingKey, type Settings, SETTINGS } from './settings.js';
import { stringify } from 'smol-toml';

type SettingSource = 'flag' | 'variable' | 'file' | 'default';

interface ResolvedSettings {
  readonly values: Settings;
  readonly sources: Readonly<Record<SettingKey, SettingSource>>;
}

interface SettingSources {
  readonly flags: Partial<Record<SettingKey, unknown>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly file: FileSettings;
}

const RANK: Readonly<Record<SettingSource, number>> = { flag: 3, variable: 2, file: 1, default: 0 };

/** @throws ConfigError */
export function resolveSettings({ flags, env, file }: SettingSources): ResolvedSettings {
  const values: Partial<Record<SettingKey, unknown>> = {};
  const sources: Partial<Record<SettingKey, SettingSource>> = {};
  for (const key of SETTING_KEYS) {
    const { variable, fallback } = SETTINGS[key];
    const text = env[variable];
    if (flags[key] !== undefined) {
      values[key] = flags[key];
      sources[key] = 'flag';
    } else if (text !== undefined && text !== '') {
      values[key] = fromVariable(key, text);
      sources[key] = 'variable';
    } else if (file.has(key)) {
      values[key] = file.get(key);
      sources[key] = 'file';
    } else {
      values[key] = fallback;
      sources[key] = 'default';
    }
  }
  const resolved = { values: values as unknown as Settings, sources: sources as ResolvedSettings['sources'] };
  return oneToken(checkTogether(resolved));
}

function fromVariable(key: SettingKey, text: string): unknown {
  const { variable, kind, isSecret } = SETTINGS[key];
  const value: unknown = kind.fromText(text);
  if (value !== INVALID) return value;
  throw new ConfigError(
    'config_invalid',
    `${variable} cannot be ${isSecret ? 'what it is' : JSON.stringify(text)}; expected ${kind.expected}.`
  );
}

function checkTogether(resolved: ResolvedSettings): ResolvedSettings {
  const { pingIntervalS, pingTimeoutS, journalKernelBytes, journalTotalBytes } = resolved.values;
  if (pingTimeoutS <= pingIntervalS) {
    throw new ConfigError(
      'config_invalid',
      `ServerApp.websocket_ping_timeout (${pingTimeoutS}) must be more than ServerApp.websocket_ping_interval (${pingIntervalS}), or connected clients count as disconnected.`
    );
  }
  if (journalTotalBytes < journalKernelBytes) {
    throw new ConfigError(
      'config_invalid',
      `Journal.total_bytes (${journalTotalBytes}) must be at least Journal.kernel_bytes (${journalKernelBytes}).`
    );
  }
  return resolved;
}

/** Of a token and a token file, only the one from the source with higher priority counts. */
function oneToken({ values, sources }: ResolvedSettings): ResolvedSettings {
  if (values.token === null || values.tokenFile === null) return { values, sources };
  const [token, file] = [RANK[sources.token], RANK[sources.tokenFile]];
  if (token === file) {
    throw new ConfigError(
      'config_invalid',
      'A token and a token file are given in the same place; remove one.'
    );
  }
  return { values: { ...values, ...(token > file ? { tokenFile: null } : { token: null }) }, sources };
}

/** `tpulab serve --print-config`: all settings as an equivalent TOML file, with the source of each value. */
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
  const { name, help, fallbackText, isSecret } = SETTINGS[key];
  const trait = name.slice(name.indexOf('.') + 1);
  const comment = `# ${help} (${source})\n`;
  // TOML has no null, and a secret is not printed.
  if (value === null) return `${comment}# ${trait} = # ${fallbackText ?? 'not set'}\n`;
  if (isSecret) return `${comment}# ${trait} = # given, not shown\n`;
  return `${comment}${stringify({ [trait]: value }).trimEnd()}\n`;
}
