/** `serve --config FILE`: JSON as in Jupyter (`{"ServerApp": {"port": 8890}}`), or TOML with the same names. */
import { readFileSync, statSync } from 'node:fs';
import { parse, TomlError } from 'smol-toml';
import { nearestName } from '@tpulab/platform/nearest-name.js';
import { INVALID } from './setting-kinds.js';
import { SETTING_KEYS, type SettingKey, SETTINGS } from './settings.js';
import { CodedError } from '@tpulab/platform/errors.js';

/** The settings in a file; the map contains only settings that the file names. */
export type FileSettings = ReadonlyMap<SettingKey, unknown>;

const MAX_FILE_BYTES = 1024 * 1024;

const KEY_OF: ReadonlyMap<string, SettingKey> = new Map(
  SETTING_KEYS.flatMap(key =>
    [SETTINGS[key].name, ...SETTINGS[key].aliases].map((name): [string, SettingKey] => [name, key])
  )
);

/**
 * Receives each skipped setting of Jupyter's own classes, with the reason: many settings in a real
 * `jupyter_server_config.json` have no meaning here.
 */
type OnSkipped = (name: string, why: string | null) => void;

/** The name pattern of Jupyter's classes; our own sections are checked by name. */
const JUPYTER_CLASS =
  /^[A-Z][A-Za-z]*(App|Manager|Provider|Provisioner|Authorizer|Handler|Checkpoints|Store|Restarter|Session|Exporter|Preprocessor|Logger|Resolver|Base)$/;
const BRIDGE_SECTIONS: ReadonlySet<string> = new Set(
  SETTING_KEYS.map(key => SETTINGS[key].name.split('.')[0] ?? '').filter(
    section => !JUPYTER_CLASS.test(section)
  )
);

/** @param onSkipped is notified of each Jupyter setting that the bridge does not have @throws ConfigError */
export function readConfigFile(file: string, onSkipped: OnSkipped): FileSettings {
  let text: string;
  let mode: number;
  try {
    const found = statSync(file);
    ({ mode } = found);
    if (found.size > MAX_FILE_BYTES) throw unreadable(file, `it is larger than ${MAX_FILE_BYTES} bytes`);
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw unreadable(file, (error as NodeJS.ErrnoException).code ?? 'unknown error', error);
  }
  const found = settingsOf(parseConfig(file, text), file, onSkipped);
  const hasSecret = [...found.keys()].some(key => SETTINGS[key].isSecret);
  if (hasSecret && (mode & 0o077) !== 0) {
    throw new ConfigError(
      'config_invalid',
      `${file} holds a token and can be read by others; restrict it with chmod 600, or use a token file.`
    );
  }
  return found;
}

function parseConfig(file: string, text: string): unknown {
  if (/\.py$/i.test(file)) throw unreadable(file, 'Python is not read; write the settings as JSON or TOML');
  const isJson = /\.json$/i.test(file) || (!/\.toml$/i.test(file) && text.trimStart().startsWith('{'));
  try {
    return isJson ? (JSON.parse(text) as unknown) : parse(text);
  } catch (error) {
    if (error instanceof TomlError) throw unreadable(file, `not TOML, line ${error.line}`, error);
    throw unreadable(file, `not JSON: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

/** Checks every name and every value of a parsed file. */
export function settingsOf(
  json: unknown,
  file: string,
  onSkipped: OnSkipped = () => undefined
): FileSettings {
  if (!isTable(json)) throw unreadable(file, 'it has no sections like {"ServerApp": {"port": 8890}}');
  const found = new Map<SettingKey, unknown>();
  const nameUsed = new Map<SettingKey, string>();
  for (const [section, traits] of Object.entries(json)) {
    // Jupyter stores the version of its own format here.
    if (section === 'version' && traits === 1) continue;
    if (!isTable(traits)) throw unknown(section, file);
    for (const [trait, value] of Object.entries(traits)) {
      const name = `${section}.${trait}`;
      const key = KEY_OF.get(name);
      if (key === undefined) {
        const { why, isRefused } = judge(section, name);
        if (isRefused) throw unknown(name, file, why);
        onSkipped(name, why);
        continue;
      }
      if (value === null) continue;
      const other = nameUsed.get(key);
      if (other !== undefined) {
        throw new ConfigError(
          'config_invalid',
          `${file} sets ${other} and ${name}, which are the same setting; remove one.`
        );
      }
      nameUsed.set(key, name);
      const { kind, isSecret } = SETTINGS[key];
      const parsed: unknown = kind.fromFile(value);
      if (parsed === INVALID) {
        const shown = isSecret ? 'what it is' : shownValue(value);
        throw new ConfigError(
          'config_invalid',
          `${name} in ${file} cannot be ${shown}; expected ${kind.expected}.`
        );
      }
      found.set(key, parsed);
    }
  }
  return found;
}

/** Judges an unknown name: whether it prevents the start, and which advice the message gives. */
function judge(section: string, name: string): { readonly why: string | null; readonly isRefused: boolean } {
  const known = NOT_IN_FILE[name];
  if (known !== undefined) return { why: known.why, isRefused: known.isRefused };
  const near = nearestName(name, [...KEY_OF.keys()]);
  const isForJupyter = JUPYTER_CLASS.test(section) && !BRIDGE_SECTIONS.has(section);
  return { why: near === null ? null : `the nearest name is ${near}`, isRefused: !isForJupyter };
}

function unknown(name: string, file: string, why: string | null = null): ConfigError {
  const hint = why ?? 'docs/configuration.md lists all';
  return new ConfigError('config_unknown_setting', `There is no setting ${name} (in ${file}); ${hint}.`);
}

function shownValue(value: unknown): string {
  const json = JSON.stringify(value);
  return json.length > 60 ? `${json.slice(0, 57)}…` : json;
}

function unreadable(file: string, why: string, cause?: unknown): ConfigError {
  return new ConfigError('config_unreadable', `The configuration ${file} cannot be used: ${why}.`, { cause });
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

interface NotHere {
  readonly why: string;
  readonly isRefused: boolean;
}
const refused = (why: string): NotHere => ({ why, isRefused: true });
const ignored = (why: string): NotHere => ({ why, isRefused: false });

/**
 * Settings of Jupyter that the bridge deliberately lacks, with the alternative. A user of a refused setting relies on
 * it for safety; the other settings are skipped, and named.
 */
export const NOT_IN_FILE: Readonly<Record<string, NotHere>> = {
  'ServerApp.allow_origin_pat': ignored(
    'patterns may admit unintended pages; list the exact origins in ServerApp.allow_origin'
  ),
  'ServerApp.allow_remote_access': ignored(
    'the Host header is always checked; name further hosts in ServerApp.local_hostnames'
  ),
  'ServerApp.allow_unauthenticated_access': ignored('every request needs a token'),
  'ServerApp.disable_check_xsrf': ignored('there are no cookies, so nothing to forge; leave it out'),
  'ServerApp.password': ignored(
    'there are no passwords; use IdentityProvider.token, or "tpulab token create NAME" for each client'
  ),
  'PasswordIdentityProvider.hashed_password': ignored('there are no passwords; use IdentityProvider.token'),
  'ServerApp.certfile': refused(
    'the server speaks plain HTTP on this machine; use SSH, or a proxy that has the certificate'
  ),
  'ServerApp.keyfile': refused(
    'the server speaks plain HTTP on this machine; use SSH, or a proxy that has the certificate'
  ),
  'ServerApp.sock_mode': ignored('the socket is always 0600 in a folder of 0700'),
  'MappingKernelManager.cull_busy': ignored(
    'a kernel that is working is never shut down for being idle; leave it out'
  ),
  'ServerApp.limit_rate': ignored('output is never dropped for its rate; leave it out'),
  'ServerApp.iopub_msg_rate_limit': ignored('output is never dropped for its rate; leave it out'),
  'ServerApp.iopub_data_rate_limit': ignored('output is never dropped for its rate; leave it out'),
  'ServerApp.port_retries': ignored('a taken port is an error; choose another, or 0 for a free one')
};

export type ConfigErrorCode = 'config_unreadable' | 'config_unknown_setting' | 'config_invalid';

/** Why the settings of a gateway are unusable. Shown by the command line. */
export class ConfigError extends CodedError<ConfigErrorCode> {}
