/** Why the description of chips that a user gave cannot be used. */
import { CodedError } from '../platform/coded-error.js';

export type DeviceErrorCode = 'chip_table_unusable';

export class DeviceError extends CodedError<DeviceErrorCode> {}
