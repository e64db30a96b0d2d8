/** The data of one person in the stand-in for Google's server, and the `colab` program of that person's computer. */
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('./program.mjs', import.meta.url));

/** Names of the failures in `outputs.mjs`. */
export type NewFailure = '412' | '400' | '503' | 'timeout' | 'outcome 1' | 'outcome 2' | 'outcome 5';
export type SshFailure = 'rsa' | '401' | '403' | '404' | '429' | '502' | 'network';

export interface ColabAnswers {
  /** `none`: with the default way of logging in; `adc`: with `--auth adc`. */
  readonly login: 'oauth2' | 'none' | 'adc';
  readonly version: string;
  /** Of 0.6: no. */
  readonly hasSsh: boolean;
  /** A newer version, for its banner. */
  readonly newer: string | null;
  readonly balance: number;
  readonly ratePerRuntime: number;
  readonly usageFails: string | null;
  readonly newFails: NewFailure | null;
  /** The runtime is created although `new` fails. */
  readonly createsAnyway: boolean;
  /** `new` waits until this file exists. */
  readonly newWaitsFor: string | null;
  readonly sshFails: SshFailure | null;
  /** `stop` reports that it has ended the runtime, which in fact continues. */
  readonly stopIsIgnored: boolean;
  readonly vm: {
    readonly host: string;
    readonly port: number;
    /** File of the keys that a connection adds. */
    readonly authorizedKeys: string;
  } | null;
}

export interface ColabCall {
  readonly args: readonly string[];
  readonly umask: number;
  readonly requestTimeout: string | null;
  readonly hasPythonPath: boolean;
}

export class ColabAccount {
  readonly program: string;
  readonly #folder: string;
  #answers: ColabAnswers = {
    login: 'oauth2',
    version: '0.7.5',
    hasSsh: true,
    newer: null,
    balance: 0,
    ratePerRuntime: 1.76,
    usageFails: null,
    newFails: null,
    createsAnyway: false,
    newWaitsFor: null,
    sshFails: null,
    stopIsIgnored: false,
    vm: null
  };

  private constructor(folder: string) {
    this.#folder = folder;
    this.program = path.join(folder, 'bin', 'colab');
  }

  /** In a separate folder. */
  static async make(folder: string): Promise<ColabAccount> {
    const account = new ColabAccount(folder);
    await mkdir(path.join(folder, 'bin'), { recursive: true });
    await mkdir(account.#runtimes);
    const starter = `#!/bin/sh\nexec '${process.execPath}' '${PROGRAM}' '${folder}' "$@"\n`;
    await writeFile(account.program, starter, { mode: 0o755 });
    await account.answer({});
    return account;
  }

  /** From now on, in addition to its earlier answers. */
  async answer(answers: Partial<ColabAnswers>): Promise<void> {
    this.#answers = { ...this.#answers, ...answers };
    const file = path.join(this.#folder, 'account.json');
    // As a whole: the program may be reading it.
    await writeFile(`${file}.new`, JSON.stringify(this.#answers));
    await rename(`${file}.new`, file);
  }

  async calls(command?: string): Promise<ColabCall[]> {
    const text = await readFile(path.join(this.#folder, 'calls.jsonl'), 'utf8').catch(() => '');
    const all = text.split('\n').filter(line => line !== '');
    return all
      .map(line => JSON.parse(line) as ColabCall)
      .filter(({ args }) => command === undefined || args.includes(command));
  }

  /** Endpoints of running runtimes. */
  async running(): Promise<string[]> {
    return (await readdir(this.#runtimes)).filter(name => !name.includes('.'));
  }

  /** Google ends all runtimes, without a notification. */
  async reclaim(): Promise<void> {
    for (const endpoint of await this.running()) await rm(path.join(this.#runtimes, endpoint));
  }

  /** The posted authorization code. */
  postedCodes(): Promise<string> {
    return readFile(path.join(this.#folder, 'posted-codes'), 'utf8').catch(() => '');
  }

  get #runtimes(): string {
    return path.join(this.#folder, 'runtimes');
  }
}
