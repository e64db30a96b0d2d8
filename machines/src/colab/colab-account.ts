/**
 * The person's Colab account, read through the `colab` command: whether it is usable, the remaining balance, and the running
 * runtimes.
 */
import { lookup } from 'node:dns/promises';
import type { RemoteCandidates } from '@tpulab/protocol';
import { RemoteProblem, remoteErrorOf } from '../remote-error.js';
import {
  type ColabAnswer,
  type ColabCall,
  type ColabCommand,
  type ColabUsage,
  supportsSsh,
  type ListedRuntime,
  parseRuntimes,
  parseUsage,
  parseVersion
} from './colab-command.js';
import { colabFailure, explainColab } from './colab-problem.js';

const COLAB_HOST = 'colab.research.google.com';
const ACCELERATORS = ['v5e1', 'v6e1'] as const;

export class ColabAccount {
  constructor(
    readonly command: ColabCommand,
    private readonly isOnline: () => Promise<boolean> = canResolveColab,
    /** Work folder of a runtime: people expect their files here, and Colab's own kernels start here. */
    readonly workFolder = '/content'
  ) {}

  /** @throws RemoteProblem `colab_missing`, `colab_outdated` */
  async version(signal: AbortSignal): Promise<string> {
    const { code, lines, errors } = await this.command.run(['version'], { signal });
    const version = parseVersion(lines);
    if (code !== 0 || version === null) throw colabFailure('version', errors);
    if (!supportsSsh(version))
      throw explainColab(["No such command 'ssh'"]) ?? colabFailure('version', errors);
    return version;
  }

  /** Fails if no account is logged in; never prompts. @throws RemoteProblem `colab_login`, `colab_offline`, `colab_failed` */
  async usage(signal: AbortSignal): Promise<ColabUsage> {
    const { code, lines, errors } = await this.command.run(['usage'], { signal });
    const usage = parseUsage(lines);
    if (code === 0 && usage) return usage;
    const problem = colabFailure('usage', errors);
    // Offline, a login that must be renewed looks like a missing login.
    if (problem.code === 'colab_login' && !(await this.isOnline()))
      throw explainColab(['NameResolutionError']) ?? problem;
    throw problem;
  }

  /** Runtimes of the whole account; those created with this session file have a name. */
  async runtimes(config: string, signal: AbortSignal): Promise<ListedRuntime[]> {
    const answer = await this.query(config, ['sessions'], { signal });
    // When logged out, `colab` lists nothing and exits with success.
    const problem = explainColab(answer.errors);
    if (problem) throw problem;
    return parseRuntimes(answer.lines);
  }

  /** Runs `colab` with our own session file. @throws RemoteProblem when it fails */
  async query(config: string, args: readonly string[], call: ColabCall): Promise<ColabAnswer> {
    const answer = await this.command.run(['--config', config, ...args], call);
    if (answer.code !== 0) throw colabFailure(args[0] ?? '', answer.errors);
    return answer;
  }

  /** For the dialog: whether a runtime can be offered; if not, one line with the reason and the remedy. */
  async candidate(signal: AbortSignal): Promise<NonNullable<RemoteCandidates['colab']>> {
    const accelerators = [...ACCELERATORS];
    try {
      await this.version(signal);
      await this.usage(signal);
      return { state: 'ok', message: null, remedy: null, accelerators };
    } catch (error) {
      const { code, message, command } = remoteErrorOf(error);
      const state =
        code === 'colab_missing' || code === 'colab_outdated'
          ? 'missing'
          : code === 'colab_login'
            ? 'login'
            : 'failed';
      return { state, message, remedy: command, accelerators };
    }
  }
}

/** Behind a proxy, the proxy resolves names, so only a real request can tell. */
async function canResolveColab(): Promise<boolean> {
  const { https_proxy: lower, HTTPS_PROXY: upper } = process.env;
  if (lower || upper) return true;
  return lookup(COLAB_HOST).then(
    () => true,
    () => false
  );
}

export function isColabProblem(error: unknown): error is RemoteProblem {
  return error instanceof RemoteProblem && error.code.startsWith('colab_');
}
