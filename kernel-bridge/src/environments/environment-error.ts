/**
 * Failures of `tpulab env` and `tpulab examples`. The code is stable and is what programs look at; the message is one sentence with
 * the remedy. How a creation failed is in the state of the creation, so the codes have no HTTP status of their own.
 */
import { CodedError } from '../platform/coded-error.js';

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
  'env_interrupted',
  'env_added_packages',
  'env_not_usable',
  'env_compiler_unsupported',
  'lessons_missing',
  'lessons_not_written'
] as const;

export type EnvironmentErrorCode = (typeof ENVIRONMENT_ERROR_CODES)[number];

export class EnvironmentError extends CodedError<EnvironmentErrorCode> {}
