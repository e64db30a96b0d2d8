/** Tells how far a set-up is, stage by stage; the stage that is running when something fails is the one that failed. */
import type { RemoteStage, Transfer } from '@tpulab/protocol';
import { TransferRate } from '../../environments/index.js';
import { CodedError } from '../../platform/coded-error.js';

/** Stages of a set-up in their order, with what people read. */
export const STAGE_TITLES = {
  check: 'Checks',
  node: 'Node',
  bridge: 'Server',
  uv: 'uv',
  python: 'Python',
  environment: 'Environment',
  gateway: 'Start'
} as const;
export type StageName = keyof typeof STAGE_TITLES;

export interface RunningStage {
  /** What it is at now; `fraction` 0 to 1 where that is known. */
  at(detail: string | null, fraction?: number | null, transfer?: Transfer | null): void;
  /** Something is downloaded or sent: how much of it has come, and its size where that is known. */
  moved(detail: string, bytes: number, totalBytes: number | null): void;
}

export class StageReporter {
  constructor(private readonly notify: (stage: RemoteStage) => void) {}

  /** `work` says in the end what was done, for people. */
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

/** Why a host could not be made ready. `command` is what a person can run in a terminal to settle it, where there is one. */
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
