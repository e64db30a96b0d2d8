/** Why a token of a client could not be made, listed or revoked. Shown by the command line, never sent over HTTP. */
import { CodedError } from '../platform/coded-error.js';

export type TokenErrorCode =
  | 'token_name_invalid'
  | 'token_name_taken'
  | 'token_unknown'
  | 'token_expiry_invalid'
  | 'token_rights_invalid'
  | 'tokens_unreadable'
  | 'tokens_busy'
  | 'tokens_too_many';

export class TokenError extends CodedError<TokenErrorCode> {}
