import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError, NOT_IN_FILE, readConfigFile, settingsOf } from './config-file.js';
import { SETTING_KEYS, SETTINGS } from './settings.js';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'tpl-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

function written(name: string, text: string, mode = 0o600): string {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

function failure(run: () => unknown): ConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

const JSON_TEXT = JSON.stringify({
  version: 1,
  ServerApp: { port: 8890, ip: '0.0.0.0', allow_origin: 'http://127.0.0.1:8888', root_dir: '/tmp' },
  IdentityProvider: { token: 'x'.repeat(20) },
  MappingKernelManager: { default_kernel_name: 'tpulab-jax' },
  KernelManager: { shutdown_wait_time: 2.5 },
  Journal: { kernel_bytes: '512 MiB' }
});

const TOML_TEXT = `
[ServerApp]
port = 8890
ip = "0.0.0.0"
allow_origin = "http://127.0.0.1:8888"
root_dir = "/tmp"
[IdentityProvider]
token = "${'x'.repeat(20)}"
[MultiKernelManager]
default_kernel_name = "tpulab-jax"
[KernelManager]
shutdown_wait_time = 2.5
[Journal]
kernel_bytes = "512 MiB"
`;

describe('a configuration file', () => {
  it.each([
    ['config.json', JSON_TEXT],
    ['config.toml', TOML_TEXT],
    ['json-without-an-ending', JSON_TEXT],
    ['toml-without-an-ending', TOML_TEXT]
  ])('%s has the same effect in either notation', (name, text) => {
    expect(Object.fromEntries(readConfigFile(written(name, text), () => undefined))).toEqual({
      port: 8890,
      host: '0.0.0.0',
      allowedOrigins: ['http://127.0.0.1:8888'],
      rootDir: '/tmp',
      token: 'x'.repeat(20),
      defaultKernel: 'tpulab-jax',
      shutdownWaitS: 2.5,
      journalKernelBytes: 512 * 1024 * 1024
    });
  });

  it.each([
    ['serverapp.port', 'ServerApp.port'],
    ['Journal.total_byte', 'Journal.total_bytes'],
    ['Bridge.nothing_like_it', null],
    ['Jornal.total_bytes', 'Journal.total_bytes']
  ])('%s is refused, with the nearest valid name', (name, near) => {
    const [section = '', trait = ''] = name.split('.');
    const { code, message } = failure(() => settingsOf({ [section]: { [trait]: 1 } }, 'f'));
    expect(code).toBe('config_unknown_setting');
    expect(message).toContain(name);
    if (near !== null) expect(message).toMatch(new RegExp(`nearest name is ${near}`));
  });

  it("reads the configuration of a real installation, and names the settings of Jupyter's classes that it skips", () => {
    const passed = new Map<string, string | null>();
    const real = {
      ServerApp: {
        port: 8890,
        open_browser: false,
        prot: 1,
        jpserver_extensions: { jupyterlab: true, nbclassic: true },
        root_dir: '/home/me'
      },
      IdentityProvider: { hashed_password: 'argon2:$argon2id$v=19$…' },
      LabApp: { collaborative: true },
      FileContentsManager: { delete_to_trash: false },
      KernelManager: { shutdown_wait_time: 0 }
    };
    const found = settingsOf(real, 'f', (name, why) => passed.set(name, why));
    expect(Object.fromEntries(found)).toEqual({ port: 8890, rootDir: '/home/me', shutdownWaitS: 0 });
    expect(Object.fromEntries(passed)).toEqual({
      'ServerApp.open_browser': null,
      'ServerApp.prot': 'the nearest name is ServerApp.port',
      'ServerApp.jpserver_extensions': null,
      'IdentityProvider.hashed_password': null,
      'LabApp.collaborative': null,
      'FileContentsManager.delete_to_trash': null
    });
  });

  it.each(Object.entries(NOT_IN_FILE))(
    '%s of Jupyter is refused or skipped, with the alternative',
    (name, { why, isRefused }) => {
      const [section = '', trait = ''] = name.split('.');
      const output: (string | null)[] = [];
      const read = (): unknown =>
        settingsOf({ [section]: { [trait]: true } }, 'f', (_, reason) => output.push(reason));
      if (isRefused) {
        const { code, message } = failure(read);
        expect(code).toBe('config_unknown_setting');
        expect(message).toContain(why);
      } else {
        expect(read()).toEqual(new Map());
        expect(output).toEqual([why]);
      }
    }
  );

  it.each([
    ['ServerApp.port', '8890'],
    ['ServerApp.port', 8890.5],
    ['ServerApp.port', 65_536],
    ['ServerApp.port', -1],
    ['ServerApp.ip', 5],
    ['ServerApp.allow_origin', '*'],
    ['ServerApp.allow_origin', ['http://a', 'http://a/path']],
    ['ServerApp.allow_credentials', 'yes please'],
    ['ServerApp.log_level', 'loud'],
    ['ServerApp.max_body_size', '10 bananas'],
    ['KernelManager.shutdown_wait_time', 'soon'],
    ['KernelRestarter.restart_limit', 1.5],
    ['Bridge.client_envs', ['A B']],
    ['Bridge.iopub_queue', 'drop'],
    ['Journal.kernel_bytes', 10],
    ['Journal.retention_days', -1]
  ])('%s cannot be %j, and the message states what was expected', (name, value) => {
    const [section = '', trait = ''] = name.split('.');
    const { code, message } = failure(() => settingsOf({ [section]: { [trait]: value } }, 'f'));
    expect(code).toBe('config_invalid');
    expect(message).toContain(name);
    expect(message).toMatch(/; expected .+\.$/);
  });

  it('accepts every setting under each of its names', () => {
    for (const key of SETTING_KEYS) {
      const { name, aliases, fallback, kind } = SETTINGS[key];
      const given = kind.toFile(fallback) ?? 'sample';
      const sample = key === 'iopubQueue' ? 'block' : given;
      for (const [section = '', trait = ''] of [name, ...aliases].map(one => one.split('.'))) {
        expect([...settingsOf({ [section]: { [trait]: sample } }, 'f').keys()]).toEqual([key]);
      }
    }
  });

  it('refuses the same setting under two names', () => {
    const twice = { IdentityProvider: { token: 'a' }, ServerApp: { token: 'b' } };
    expect(failure(() => settingsOf(twice, 'f')).message).toMatch(/which are the same setting/);
  });

  it('a null counts as not set', () => expect(settingsOf({ ServerApp: { port: null } }, 'f').size).toBe(0));

  it('refuses a token in a file that others can read, and never shows a token', () => {
    const text = JSON.stringify({ IdentityProvider: { token: 'secret-secret-secret' } });
    const { code, message } = failure(() => readConfigFile(written('a.json', text, 0o644), () => undefined));
    expect([code, message.includes('secret-secret')]).toEqual(['config_invalid', false]);
    const wrong = failure(() => settingsOf({ IdentityProvider: { token: ['secret-secret'] } }, 'f'));
    expect(wrong.message).not.toContain('secret-secret');
  });

  it.each([
    ['a.json', '{"ServerApp": ', /not JSON/],
    ['a.toml', '[ServerApp]\nport = = 1\n', /not TOML, line 2/],
    ['a.py', 'c.ServerApp.port = 1', /Python is not read/],
    ['a.json', '[]', /no sections/],
    ['a.json', '{"port": 1}', /no setting port/],
    ['a.json', `{"a": "${'x'.repeat(2 * 1024 * 1024)}"}`, /larger than/]
  ])('%s with other content is refused with the reason', (name, text, why) => {
    expect(failure(() => readConfigFile(written(name, text), () => undefined)).message).toMatch(why);
  });

  it('reports a missing file', () => {
    expect(failure(() => readConfigFile(path.join(folder, 'none'), () => undefined))).toMatchObject({
      code: 'config_unreadable'
    });
  });
});
