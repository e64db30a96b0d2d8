/** Why a host could not be made ready. `command` is what a person can run in a terminal to settle it, where there is one. */
export type SetupErrorCode =
  | 'setup_payload_missing'
  | 'setup_host_unfit'
  | 'setup_host_garbled'
  | 'setup_uv_missing'
  | 'setup_download_failed'
  | 'setup_checksum_wrong'
  | 'setup_disk_full'
  | 'setup_unpack_failed'
  | 'setup_python_failed'
  | 'setup_environment_failed'
  | 'setup_gateway_failed'
  | 'setup_other_build'
  | 'setup_busy'
  | 'setup_clean_failed';

export class SetupError extends Error {
  override readonly name = 'SetupError';
  readonly command: string | null;

  constructor(
    readonly code: SetupErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly command?: string } = {}
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.command = options.command ?? null;
  }
}
