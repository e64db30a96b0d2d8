/**
 * The other end: a person's computer with its own keys, configuration of ssh and gcloud. Programs find these because
 * `bin` is first on their PATH, like the real ones.
 */
import { execFile } from 'node:child_process';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { requireProgram } from './availability.js';
import { GCLOUD_PROGRAM, type GcloudAnswer } from './gcloud.js';

const run = promisify(execFile);

export class Laptop {
  private constructor(readonly folder: string) {}

  static async make(folder: string): Promise<Laptop> {
    const laptop = new Laptop(folder);
    await mkdir(laptop.ssh, { recursive: true, mode: 0o700 });
    await mkdir(laptop.bin, { recursive: true });
    await laptop.makeKey('id_ed25519', '');
    await laptop.configure([]);
    // OpenSSH searches for its files in the user's home according to the system, and not in $HOME.
    const starter = `#!/bin/sh\nexec '${requireProgram('ssh')}' -F '${laptop.config}' "$@"\n`;
    await writeFile(path.join(laptop.bin, 'ssh'), starter, { mode: 0o755 });
    await laptop.answerGcloud([]);
    return laptop;
  }

  get home(): string {
    return this.folder;
  }

  get bin(): string {
    return path.join(this.folder, 'bin');
  }

  get ssh(): string {
    return path.join(this.folder, '.ssh');
  }

  get config(): string {
    return path.join(this.ssh, 'config');
  }

  get knownHosts(): string {
    return path.join(this.ssh, 'known_hosts');
  }

  /** `bin` first. */
  get path(): string {
    return `${this.bin}${path.delimiter}${process.env['PATH'] ?? ''}`;
  }

  /** The public half; a non-empty passphrase has to be typed. */
  async makeKey(name: string, passphrase: string): Promise<string> {
    const file = path.join(this.ssh, name);
    await rm(file, { force: true });
    await rm(`${file}.pub`, { force: true });
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', passphrase, '-C', name, '-f', file]);
    return readFile(`${file}.pub`, 'utf8');
  }

  publicKey(name = 'id_ed25519'): Promise<string> {
    return readFile(path.join(this.ssh, `${name}.pub`), 'utf8');
  }

  /** Writes `~/.ssh/config`: these lines, and settings that separate it from the files of the user who runs the test. */
  async configure(lines: readonly string[], key = 'id_ed25519'): Promise<void> {
    const own = [
      'Host *',
      `  UserKnownHostsFile ${this.knownHosts}`,
      '  GlobalKnownHostsFile /dev/null',
      `  IdentityFile ${path.join(this.ssh, key)}`,
      '  IdentitiesOnly yes',
      '  IdentityAgent none'
    ];
    await writeFile(this.config, `${[...lines, ...own].join('\n')}\n`, { mode: 0o600 });
  }

  /** Makes a host key known for these names, like an earlier visit. @param more keeps the known ones */
  async know(names: readonly string[], publicHostKey: string, more = false): Promise<void> {
    const lines = names.map(name => `${name} ${publicHostKey}\n`).join('');
    await writeFile(this.knownHosts, lines, { flag: more ? 'a' : 'w' });
  }

  /** The answers of the stand-in for gcloud from now on. Without an answer it reports that it does not know the command. */
  async answerGcloud(answers: readonly GcloudAnswer[]): Promise<void> {
    await rm(path.join(this.folder, 'gcloud.log'), { force: true });
    await this.#replace(path.join(this.folder, 'gcloud.json'), JSON.stringify(answers));
    await this.#replace(
      path.join(this.folder, 'gcloud.cjs'),
      GCLOUD_PROGRAM.replaceAll('FOLDER', JSON.stringify(this.folder))
    );
    await this.#replace(
      path.join(this.bin, 'gcloud'),
      `#!/bin/sh\nexec '${process.execPath}' '${path.join(this.folder, 'gcloud.cjs')}' "$@"\n`
    );
  }

  /** In one step: the bridge may run the program at any moment, and a partly written program cannot run. */
  async #replace(file: string, text: string): Promise<void> {
    await writeFile(`${file}.new`, text, { mode: 0o755 });
    await rename(`${file}.new`, file);
  }

  /** The command lines with which gcloud was called. */
  async gcloudCalls(): Promise<string[]> {
    const text = await readFile(path.join(this.folder, 'gcloud.log'), 'utf8').catch(() => '');
    return text.split('\n').filter(line => line !== '');
  }
}
