/** Why a gateway does not start. Shown by the command line, never sent over HTTP. */
import { CodedError } from '../platform/coded-error.js';

export type ServeErrorCode =
  | 'state_dir_in_use'
  | 'state_dir_unusable'
  | 'token_unusable'
  | 'address_in_use'
  | 'address_unusable'
  | 'root_dir_missing'
  | 'socket_unusable';

export class ServeError extends CodedError<ServeErrorCode> {}
