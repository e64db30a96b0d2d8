/**
 * Failures of `tpulab env`. The code is stable and is what programs look at; the message is one sentence with
 * the remedy. Nothing here is sent over HTTP, so the codes have no status.
 */
export const ENVIRONMENT_ERROR_CODES = [
  'env_unknown',
  'env_definition_invalid',
  'env_definitions_missing',
  'env_not_created',
  'env_in_use',
  'env_uv_missing',
  'env_agent_missing',
  'env_recipes_missing',
  'env_python',
  'env_network',
  'env_disk_full',
  'env_permission',
  'env_package_refused',
  'env_build_failed',
  'env_check_failed',
  'env_interrupted'
] as const;

export type EnvironmentErrorCode = (typeof ENVIRONMENT_ERROR_CODES)[number];

export class EnvironmentError extends Error {
  readonly code: EnvironmentErrorCode;

  constructor(code: EnvironmentErrorCode, message: string, options: { cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'EnvironmentError';
    this.code = code;
  }
}
