/** Why there is no connection to the bridge, in words. */
import { CONNECT_TIMEOUT_MS, type StreamFailure } from './event-stream.js';
import { trans } from '../text/trans.js';

/** A whole sentence. */
export function failureText({ code, detail }: StreamFailure): string {
  switch (code) {
    case 'cut':
      return detail
        ? trans.__('Disconnected from the TPULab server: %1.', detail)
        : trans.__('Disconnected from the TPULab server.');
    case 'timeout':
      return trans.__('The TPULab server did not answer within %1 s.', CONNECT_TIMEOUT_MS / 1_000);
    case 'silent':
      return trans.__('The TPULab server does not answer.');
    case 'unreadable':
      return trans.__('The TPULab server and this page use different protocol versions; update both.');
    case 'refused':
      return trans.__('The TPULab server refused the connection: %1', detail);
    case 'address':
      return trans.__('The address of the TPULab server cannot be opened.');
  }
}
