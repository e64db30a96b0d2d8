import { pino } from 'pino';
import { expect, it } from 'vitest';
import type { ChannelName } from '../jupyter/kernel-message.js';
import type { Resent, ResendLink } from './resend-link.js';
import { type Incoming, Takeover } from './takeover.js';

function incoming(channel: ChannelName, id: string): Incoming {
  const header = { msg_id: id, msg_type: 'stream', session: 'kernel' };
  return { message: { channel, parts: [Buffer.from(JSON.stringify(header))] }, header, parent: null };
}

/** A takeover whose ring contains these messages, each as `channel:id`, and the delivered messages. */
function takeover(ring: readonly string[]): { takeover: Takeover; delivered: string[] } {
  const delivered: string[] = [];
  const resent: Resent = {
    messages: ring.map(text => {
      const [channel, id] = text.split(':') as [ChannelName, string];
      return { channel, frames: [Buffer.from(id)] };
    }),
    lost: {},
    exact: true
  };
  const link = { resend: () => Promise.resolve(resent) } as unknown as ResendLink;
  const state = { ready: true, session: 'kernel', busy: [] };
  const tail = { state, last: {}, answers: new Set<string>(), lastTimeMs: null, unanswered: [], open: [] };
  const made = new Takeover(
    { tail, link, routingId: 'keeper', log: pino({ level: 'silent' }) },
    {
      parse: (channel, frames) => incoming(channel, frames[0]!.toString()),
      deliver: ({ header }) => delivered.push(header.msg_id),
      gap: gap => delivered.push(gap.reason)
    }
  );
  return { takeover: made, delivered };
}

it('delivers once what the ring has and the socket brings, before or after the ring has answered', async () => {
  const { takeover: taking, delivered } = takeover(['iopub:a', 'iopub:b', 'iopub:c', 'shell:r']);
  taking.take(incoming('iopub', 'b'));
  await taking.run(Promise.resolve());
  // The socket is behind: these were sent before the ring answered.
  taking.take(incoming('iopub', 'c'));
  taking.take(incoming('shell', 'r'));
  taking.take(incoming('iopub', 'd'));
  taking.take(incoming('shell', 's'));
  expect(delivered).toEqual(['a', 'b', 'c', 'r', 'd', 's']);
});

it('delivers what only the socket has after what the ring has', async () => {
  const { takeover: taking, delivered } = takeover(['iopub:a']);
  for (const id of ['a', 'b']) taking.take(incoming('iopub', id));
  await taking.run(Promise.resolve());
  taking.take(incoming('iopub', 'c'));
  expect(delivered).toEqual(['a', 'b', 'c']);
});
