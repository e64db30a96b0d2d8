import { describe, expect, it } from 'vitest';
import { parse } from 'smol-toml';
import { settingsOf } from './config-file.js';
import { printSettings, resolveSettings } from './resolve-settings.js';
import { SETTING_KEYS, type SettingKey, SETTINGS } from './settings.js';

const NOTHING = { flags: {}, env: {}, file: new Map<SettingKey, unknown>() };

describe('settings', () => {
  it('a flag overrides a variable, a variable the file, and the file the default', () => {
    const file = new Map<SettingKey, unknown>([['port', 1]]);
    const env = { TPULAB_PORT: '2' };
    const ports = [
      resolveSettings(NOTHING),
      resolveSettings({ ...NOTHING, file }),
      resolveSettings({ ...NOTHING, file, env }),
      resolveSettings({ file, env, flags: { port: 3 } })
    ].map(({ values, sources }) => [values.port, sources.port]);
    expect(ports).toEqual([
      [0, 'default'],
      [1, 'file'],
      [2, 'variable'],
      [3, 'flag']
    ]);
  });

  it('an empty variable counts as not set', () => {
    expect(resolveSettings({ ...NOTHING, env: { TPULAB_PORT: '' } }).sources.port).toBe('default');
  });

  it('no two share a name, a flag or a variable', () => {
    const names = SETTING_KEYS.flatMap(key => [SETTINGS[key].name, ...SETTINGS[key].aliases]);
    const flags = SETTING_KEYS.flatMap(key => SETTINGS[key].flag?.split(' ')[0] ?? []);
    const variables = SETTING_KEYS.map(key => SETTINGS[key].variable);
    for (const all of [names, flags, variables]) expect(new Set(all).size).toBe(all.length);
  });

  it('a variable with a wrong value is refused, and a secret one is not shown', () => {
    expect(() => resolveSettings({ ...NOTHING, env: { TPULAB_PORT: 'x' } })).toThrow(
      'TPULAB_PORT cannot be "x"; expected a port: a whole number from 0 to 65535.'
    );
  });

  it.each([
    ['a ping timeout below the interval', { pingIntervalS: 30, pingTimeoutS: 30 }],
    ['a total quota below that of one kernel', { journalKernelBytes: 2 ** 30, journalTotalBytes: 2 ** 29 }],
    ['a token and a token file in one place', { token: 'x'.repeat(20), tokenFile: '/x' }]
  ])('%s is refused', (_what, flags) => {
    expect(() => resolveSettings({ ...NOTHING, flags })).toThrow(
      expect.objectContaining({ code: 'config_invalid' })
    );
  });

  it('of a token and a token file, the one with higher priority counts', () => {
    const env = { TPULAB_TOKEN: 'from-a-variable' };
    expect(resolveSettings({ ...NOTHING, env, flags: { tokenFile: '/x' } }).values).toMatchObject({
      token: null,
      tokenFile: '/x'
    });
    const file = new Map<SettingKey, unknown>([['tokenFile', '/x']]);
    expect(resolveSettings({ ...NOTHING, env, file }).values).toMatchObject({
      token: 'from-a-variable',
      tokenFile: null
    });
  });
});

describe('--print-config', () => {
  it('prints an equivalent file', () => {
    const flags = {
      port: 8890,
      unixSocket: true,
      allowedOrigins: ['http://127.0.0.1:1', 'http://b'],
      allowCredentials: true,
      shutdownWaitS: 2.5,
      journalKernelBytes: 2 ** 30,
      rootDir: '/with "quotes" and \\'
    };
    const before = resolveSettings({ ...NOTHING, flags });
    const file = settingsOf(parse(printSettings(before)), 'printed');
    expect(resolveSettings({ ...NOTHING, file }).values).toEqual(before.values);
  });

  it('names every setting, shows its source, and shows no token', () => {
    const printed = printSettings(
      resolveSettings({ ...NOTHING, flags: { token: 'very-secret-token', port: 1 } })
    );
    expect(printed).not.toContain('very-secret-token');
    for (const key of SETTING_KEYS) expect(printed).toContain(SETTINGS[key].help);
    expect(printed).toContain('port, 0 for a free one (flag)');
  });
});
