/** Why the settings of a gateway cannot be used. Shown by the command line. */
import { CodedError } from '../platform/coded-error.js';

export type ConfigErrorCode = 'config_unreadable' | 'config_unknown_setting' | 'config_invalid';

export class ConfigError extends CodedError<ConfigErrorCode> {}
