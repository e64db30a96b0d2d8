/** `tpulab serve`: a gateway in the foreground. */
import { Command, InvalidArgumentError, Option } from 'commander';
import type { ServeReady } from '@tpulab/protocol';
import { ConfigError, readConfigFile } from '../config/config-file.js';
import { printSettings, resolveSettings } from '../config/resolve-settings.js';
import { INVALID } from '../config/setting-kinds.js';
import { SETTING_KEYS, type SettingKey, SETTINGS } from '../config/settings.js';
import type { Streams } from './output.js';

interface ServeOptions {
  readonly config?: string;
  readonly printConfig?: true;
}

export function serveCommand(streams: Streams): Command {
  const command = new Command('serve')
    .description('serve kernels until SIGTERM or SIGINT; kernels keep running and the next server finds them')
    .option('--config <file>', "settings as JSON or TOML, with Jupyter's names (docs/configuration.md)");
  const keyOf = new Map<string, SettingKey>();
  for (const key of SETTING_KEYS) {
    const option = optionOf(key);
    if (!option) continue;
    keyOf.set(option.attributeName(), key);
    command.addOption(option);
  }
  return command
    .option('--print-config', 'print all settings as TOML with their sources, and exit')
    .option('--json', 'print errors as JSON too (the ready line always is)')
    .action((options: ServeOptions & Readonly<Record<string, unknown>>) => {
      const flags: Partial<Record<SettingKey, unknown>> = {};
      for (const [name, key] of keyOf) flags[key] = options[name];
      return serve(options, flags, streams);
    });
}

async function serve(
  { config, printConfig }: ServeOptions,
  flags: Partial<Record<SettingKey, unknown>>,
  streams: Streams
): Promise<void> {
  const passedOver: string[] = [];
  const file =
    config === undefined
      ? new Map<SettingKey, unknown>()
      : readConfigFile(config, (name, why) => passedOver.push(why === null ? name : `${name} (${why})`));
  if (passedOver.length > 0) {
    const names = passedOver.join('; ');
    streams.stderr.write(
      `Ignored in ${String(config)}, because the server does not have these settings: ${names}.\n`
    );
  }
  const settings = resolveSettings({ flags, env: process.env, file });
  if (printConfig === true) {
    streams.stdout.write(printSettings(settings));
    return;
  }
  if (settings.sources.token === 'flag') {
    if (process.env['npm_command'] === 'exec') {
      // This process can change its own title, but not those of npm and its shell.
      throw new ConfigError(
        'config_invalid',
        'With npx, every user of this machine can see a token on the command line for as long as the server runs; use TPULAB_TOKEN or --token-file instead.'
      );
    }
    hideArguments(streams);
  }
  // Other commands must not load the gateway's modules.
  const { serveUntilStopped } = await import('./serve-gateway.js');
  await serveUntilStopped(settings.values, async ({ url, specs }) => {
    const line: ServeReady = { url, pid: process.pid };
    streams.stdout.write(`${JSON.stringify(line)}\n`);
    if ((await specs.list()).size === 0)
      streams.stderr.write('No kernel is installed yet. Make one: tpulab env create jax\n');
  });
}

/** The flag of a setting; its text is validated where it is parsed, so that the message names the flag. */
function optionOf(key: SettingKey): Option | null {
  const { flag, kind, help, fallback, fallbackText } = SETTINGS[key];
  if (flag === undefined) return null;
  const shown = fallbackText ?? (Array.isArray(fallback) ? null : String(fallback));
  const option = new Option(flag, shown === null ? help : `${help} (default: ${shown})`);
  if (key === 'unixSocket') option.conflicts(['host', 'port']);
  if (!flag.includes(' ')) return option;
  return option.argParser((text: string, previous: unknown) => {
    const value: unknown = kind.fromText(text);
    if (value === INVALID) throw new InvalidArgumentError(`Expected ${kind.expected}.`);
    // Flags of lists can be repeated.
    return Array.isArray(value) && Array.isArray(previous)
      ? [...(previous as unknown[]), ...(value as unknown[])]
      : value;
  });
}

/**
 * Every user of the machine can see the arguments while the process runs. The title replaces them, but they were
 * visible for a moment, and stay in the history of the shell.
 */
function hideArguments(streams: Streams): void {
  process.title = 'tpulab serve';
  streams.stderr.write(
    'Other users can see a token on the command line; use TPULAB_TOKEN or --token-file instead.\n'
  );
}
