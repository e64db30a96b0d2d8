// @vitest-environment jsdom
import type { ISessionContext } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { watchInterrupts } from './interrupt-watch.js';

/** JAX checks for an interrupt in `block_until_ready`, not in `float`. */
describe('an interrupt without effect', () => {
  const kernel = { status: 'busy' };
  let statusChanged: Signal<object, string>;
  let shown: string[];
  let commands: CommandRegistry;
  let restarts: number;
  let isCurrent: boolean;

  beforeEach(() => {
    vi.useFakeTimers();
    kernel.status = 'busy';
    isCurrent = true;
    restarts = 0;
    shown = [];
    statusChanged = new Signal<object, string>({});
    commands = new CommandRegistry();
    const describedBy = { args: {} };
    commands.addCommand('notebook:interrupt-kernel', { describedBy, execute: () => undefined });
    commands.addCommand('notebook:restart-kernel', { describedBy, execute: () => (restarts += 1) });
    watchInterrupts({
      commands,
      sessionContext: { session: { kernel }, statusChanged } as unknown as ISessionContext,
      isCurrent: () => isCurrent,
      notice: {
        show: ({ text, actions }) => {
          shown.push(text);
          actions[0]?.onClick();
        },
        clear: () => (shown = [])
      }
    });
  });
  afterEach(() => vi.useRealTimers());

  const interrupt = (): Promise<unknown> => commands.execute('notebook:interrupt-kernel');
  const become = (status: string): void => {
    kernel.status = status;
    statusChanged.emit(status);
  };

  it('is reported after four seconds, with a restart, until the cell ends', async () => {
    await interrupt();
    vi.advanceTimersByTime(3_900);
    expect(shown).toEqual([]);
    vi.advanceTimersByTime(200);
    expect(shown).toEqual([expect.stringContaining('has not reacted to the interrupt yet')]);
    expect(restarts).toBe(1);
    become('idle');
    expect(shown).toEqual([]);
  });

  it('is not reported if the cell ended, even if the next one runs', async () => {
    await interrupt();
    become('idle');
    become('busy');
    vi.advanceTimersByTime(10_000);
    expect(shown).toEqual([]);
  });

  it('is not reported for an idle kernel, or above another notebook', async () => {
    kernel.status = 'idle';
    await interrupt();
    kernel.status = 'busy';
    isCurrent = false;
    await interrupt();
    vi.advanceTimersByTime(10_000);
    expect(shown).toEqual([]);
  });
});
