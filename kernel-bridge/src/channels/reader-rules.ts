/** What a client may say that only reads: nothing that changes the kernel, or waits in its queues. */
import type { ClientRequest, Refusal } from './refusal.js';

const READ_ONLY: Refusal = {
  code: 'read_only',
  message: 'This link only shows a notebook. It cannot send anything to the kernel.'
};

/**
 * For one client. A page asks its kernel once what it is, which tells it the language; a second time would be one of the many with
 * which a busy kernel could be kept from its work.
 */
export function readerRefusals(): (request: ClientRequest) => Refusal | null {
  let hasAsked = false;
  return ({ header, message }) => {
    if (header.msg_type !== 'kernel_info_request' || message.channel !== 'shell' || hasAsked)
      return READ_ONLY;
    hasAsked = true;
    return null;
  };
}
