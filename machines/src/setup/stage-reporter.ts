/** Reports the progress of a setup, stage by stage; a failure belongs to the running stage. */
import type { RemoteStage, Transfer } from '@tpulab/protocol';
import { TransferRate } from '../environments/index.js';
import { CodedError } from '@tpulab/platform/errors.js';

/** Stages of a setup in their order, with their titles for people. */
const STAGE_TITLES = {
  check: 'Checks',
  node: 'Node',
  bridge: 'Server',
  uv: 'uv',
  python: 'Python',
  environment: 'Environment',
  gateway: 'Start'
} as const;
type StageName = keyof typeof STAGE_TITLES;

export interface RunningStage {
  /** The current step; `fraction` 0 to 1 if known. */
  at(detail: string | null, fraction?: number | null, transfer?: Transfer | null): void;
  /** Progress of a download or upload: the transferred bytes, and the total size if known. */
  moved(detail: string, bytes: number, totalBytes: number | null): void;
}

export class StageReporter {
  constructor(private readonly notify: (stage: RemoteStage) => void) {}

  /** At its end, `work` returns a description of the result, for people. */
  async run<Value>(
    name: StageName,
    work: (stage: RunningStage) => Promise<{ readonly value: Value; readonly detail: string | null }>,
    title: string = STAGE_TITLES[name]
  ): Promise<Value> {
    let last: string | null = null;
    const rate = new TransferRate();
    const report = (
      state: RemoteStage['state'],
      detail: string | null,
      fraction: number | null,
      transfer: Transfer | null = null
    ): void => this.notify({ name, title, state, detail, fraction, ...(transfer && { transfer }) });
    const at: RunningStage['at'] = (text, fraction = null, transfer = null) => {
      last = text;
      report('running', text, fraction === null ? null : Math.min(1, Math.max(0, fraction)), transfer);
    };
    report('running', null, null);
    try {
      const { value, detail } = await work({
        at,
        moved: (text, bytes, totalBytes) => {
          const fraction = totalBytes === null ? null : totalBytes === 0 ? 1 : bytes / totalBytes;
          at(text, fraction, rate.at(bytes, totalBytes));
        }
      });
      report('done', detail, 1);
      return value;
    } catch (error) {
      report('failed', error instanceof Error ? error.message : last, null);
      throw error;
    }
  }

  skip(name: StageName, detail: string, title: string = STAGE_TITLES[name]): void {
    this.notify({ name, title, state: 'skipped', detail, fraction: null });
  }
}

/** Why a host could not be made ready. `command`, if set, is a terminal command that solves the problem. */
export type SetupErrorCode =
  | 'setup_payload_missing'
  | 'setup_host_unfit'
  | 'setup_host_garbled'
  | 'setup_uv_missing'
  | 'setup_download_failed'
  | 'setup_checksum_wrong'
  | 'setup_unpack_failed'
  | 'setup_python_failed'
  | 'setup_environment_failed'
  | 'setup_gateway_failed'
  | 'setup_other_build'
  | 'setup_busy'
  | 'setup_clean_failed';

export class SetupError extends CodedError<SetupErrorCode> {
  readonly command: string | null;

  constructor(
    code: SetupErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly command?: string } = {}
  ) {
    super(code, message, options);
    this.command = options.command ?? null;
  }
}
