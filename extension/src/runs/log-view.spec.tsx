// @vitest-environment jsdom
import type { BandMessage, ControlMessage } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { T0 } from '../events/samples.spec-data.js';
import { reactPlace } from '../testing/react-place.js';
import { LogView } from './log-view.js';

function command(id: string, fields: Partial<ControlMessage>): ControlMessage {
  const none = { name: null, value: null, before: null, reason: null, durationMs: null };
  return {
    ...{ type: 'control', time: T0, run: 'r', id, action: 'stop', phase: 'applied', step: 10 },
    ...none,
    ...fields
  } as ControlMessage;
}

const BAND: BandMessage = {
  ...{ type: 'band', time: T0, run: 'r', kind: 'evaluate', step: 30, startTime: T0 + 30 },
  ...{ inStep: true, durationMs: 12, failed: false }
};

describe('the log of a run', () => {
  const place = reactPlace();
  const lines = (commands: ControlMessage[], over: boolean): string[] => {
    place.show(<LogView run={{ bands: [BAND], commands, file: null, over }} />);
    return [...place.host.querySelectorAll('.jp-TPULabLog-lines li')].map(({ textContent }) => textContent);
  };

  it('shows the requests and their results, newest first, and its other work', () => {
    const set = { action: 'set', name: 'learning_rate', value: 0.02, before: 0.001 } as const;
    const refused = { phase: 'refused', reason: 'it has ended', time: T0 + 50, step: null } as const;
    const commands = [
      command('a', { ...set, time: T0 + 10, step: 10 }),
      command('b', { action: 'pause', ...refused })
    ];
    expect(lines(commands, true)).toEqual([
      '– pause · refused: it has ended',
      '30 evaluation · 12.0 ms',
      '10 learning_rate 0.001000 → 0.02000 · applied'
    ]);
  });

  it('describes commands that waited for a step after the last one, unless the run continues', () => {
    const waiting = [command('a', { phase: 'accepted', step: null, time: T0 + 90 })];
    expect(lines(waiting, true)[0]).toContain('not applied: no further step');
    expect(lines(waiting, false)[0]).toContain('waiting for the next step');
  });
});
