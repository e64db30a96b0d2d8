/** Whether the panel has something to show; if not, the reason and the possible actions. */
import { countdownText } from '@tpulab/protocol';
import type { CurrentKernel } from '../tokens.js';
import type { StreamState } from '../events/event-stream.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import { failureText } from '../events/failure-text.js';
import { trans } from '../text/trans.js';

/** The action of a button beside a message. */
export type Remedy = 'change-kernel' | 'reconnect';

export interface Message {
  readonly text: string;
  readonly remedy: Remedy | null;
}

/** Either a message alone, or telemetry with an optional message above it. */
interface Situation {
  readonly message: Message | null;
  readonly showTelemetry: boolean;
}

interface Circumstances {
  readonly current: CurrentKernel;
  readonly stream: StreamState | null;
  readonly telemetry: KernelTelemetry | null;
  readonly now: number;
}

export function situationOf(circumstances: Circumstances): Situation {
  const { current, telemetry } = circumstances;
  switch (current.kind) {
    case 'none':
      return only(
        trans.__(
          'Open a notebook or a console to see the devices of its kernel and the steps of its training.'
        )
      );
    case 'no-kernel':
      return only(
        trans.__('%1 has no kernel. Choose a TPULab kernel to see devices and steps.', current.document),
        'change-kernel'
      );
    case 'local':
      return only(
        trans.__(
          'The kernel “%1” is not on the TPULab server, so its devices are unknown. Choose a TPULab kernel.',
          current.kernelName
        ),
        'change-kernel'
      );
    case 'bridge': {
      const message = linkMessage(circumstances);
      const known = telemetry !== null && telemetry.lastSeq > 0;
      return { message: message ?? deathMessage(telemetry), showTelemetry: message === null || known };
    }
  }
}

function only(text: string, remedy: Remedy | null = null): Situation {
  return { message: { text, remedy }, showTelemetry: false };
}

function linkMessage({ current, stream, now }: Circumstances): Message | null {
  if (current.kind !== 'bridge' || stream?.kind === 'live') {
    return null;
  }
  if (stream?.kind === 'waiting') {
    const wait = countdownText(stream.retryAt - now);
    const text = `${failureText(stream.failure)} ${trans.__('Next try in %1.', wait)}`;
    return { text, remedy: 'reconnect' };
  }
  if (stream === null && current.backend.lastError) {
    return { text: current.backend.lastError.message, remedy: 'reconnect' };
  }
  return { text: trans.__('Connecting to the TPULab server…'), remedy: null };
}

function deathMessage(telemetry: KernelTelemetry | null): Message | null {
  if (!telemetry?.isDead) {
    return null;
  }
  const reason = telemetry.state?.reason;
  const text = reason
    ? trans.__('The kernel has ended: %1. Restart it to continue; below is its last known state.', reason)
    : trans.__('The kernel has ended. Restart it to continue; below is its last known state.');
  return { text, remedy: null };
}
