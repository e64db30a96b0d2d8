/** Checks what an agent sent, and says under which topic pages get it. */
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { type TelemetryEvent, TelemetryMessage } from '@tpulab/protocol';

const TOPICS: Readonly<Record<TelemetryMessage['type'], TelemetryEvent['topic']>> = {
  // A hello says that a new process of the kernel reports, which matters first to who shows its devices.
  hello: 'devices',
  devices: 'devices',
  run: 'runs',
  steps: 'steps',
  figures: 'steps',
  band: 'steps',
  pace: 'steps',
  hosts: 'steps',
  compile: 'compile',
  control: 'runs',
  advice: 'runs',
  'memory-error': 'runs',
  memory: 'runs',
  profile: 'runs'
};

const checker = TypeCompiler.Compile(TelemetryMessage);

export type Checked =
  | { readonly topic: TelemetryEvent['topic']; readonly message: TelemetryMessage }
  | { readonly fault: string };

/** The topic of a message, or in a few words what is wrong with it. */
export function topicOf(json: string): Checked {
  const message: unknown = JSON.parse(json);
  if (checker.Check(message)) return { topic: TOPICS[message.type], message };
  const type = (message as { type?: unknown } | null)?.type;
  return { fault: `not a valid message of type ${JSON.stringify(type)}` };
}
