/** For specs: a setup that records all of its reports. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { RemoteCheck, RemoteStage } from '@tpulab/protocol';
import type { PreparedHost } from '../../machine.js';
import { createHostSetup, type HostSetupOptions } from '../host-setup.js';
import { UV } from './bundles.js';
import type { LocalHost } from './local-shell.js';

export class WatchedSetup {
  readonly stages: RemoteStage[] = [];
  readonly checks: RemoteCheck[] = [];
  readonly log: string[] = [];
  readonly abort = new AbortController();
  onStage: (stage: RemoteStage) => void = () => undefined;
  readonly #options: HostSetupOptions;

  constructor(
    readonly host: LocalHost,
    options: HostSetupOptions,
    readonly sender = 'laptop'
  ) {
    this.#options = { uv: UV, ...options };
  }

  prepare(environment: string, takeOver = false, added: readonly string[] = []): Promise<PreparedHost> {
    return createHostSetup(this.#options).prepare(this.host.shell, {
      environment,
      added,
      sender: this.sender,
      takeOver,
      ...this.#listeners()
    });
  }

  clean(): Promise<void> {
    return createHostSetup(this.#options).clean(this.host.shell, this.#listeners());
  }

  /** `node done`, `bridge skipped`, …: the result of each stage. */
  get ends(): string[] {
    return this.stages
      .filter(({ state }) => state !== 'running')
      .map(({ name, state }) => `${name} ${state}`);
  }

  detailOf(name: string): string | null {
    return this.stages.filter(stage => stage.name === name).at(-1)?.detail ?? null;
  }

  #listeners() {
    return {
      signal: this.abort.signal,
      onStage: (stage: RemoteStage) => {
        this.stages.push(stage);
        this.onStage(stage);
      },
      onCheck: (check: RemoteCheck) => void this.checks.push(check),
      onLog: (line: string) => void this.log.push(line)
    };
  }
}

/** uv's download cache on this machine. */
export async function uvCache(): Promise<string> {
  const { stdout } = await promisify(execFile)(UV, ['cache', 'dir']);
  return stdout.trim();
}
