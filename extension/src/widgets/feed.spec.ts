import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import { run } from '../events/samples.spec-data.js';
import type { AnyModel } from './afm.js';
import { type Feed, HOST_KEY, openFeed, type WidgetHost } from './feed.js';
import type { Snapshot } from './snapshot.js';
import { trans } from '../text/trans.js';

/** The model of a widget whose kernel is on no bridge. */
class Model implements AnyModel {
  constructor(private readonly _values: Record<string, unknown>) {}

  get(name: string): unknown {
    return this._values[name];
  }

  set(name: string, value: unknown): void {
    this._values[name] = value;
    for (const listener of this._listeners.get(`change:${name}`) ?? []) {
      listener();
    }
  }

  save_changes(): void {
    // Values set here are not sent on.
  }

  on(event: string, callback: () => void): void {
    this._listeners.set(event, [...(this._listeners.get(event) ?? []), callback]);
  }

  off(event: string): void {
    this._listeners.delete(event);
  }

  send(content: unknown): void {
    this.sent.push(content);
  }

  readonly sent: unknown[] = [];

  private readonly _listeners = new Map<string, (() => void)[]>();
}

function snapshotOf(id: string, name: string): Snapshot {
  const fields = { devices: null, throughput: null, steps: [], metrics: {}, commands: [] };
  return { v: 1, time: 0, kernelId: null, run: run({ run: id, name }), ...fields };
}

describe('the feed of a widget', () => {
  let model: Model;
  let feed: Feed;
  let telemetry: KernelTelemetry;

  const open = (values: Record<string, unknown>): void => {
    model = new Model({ kernel_id: '', run_id: '', run_name: '', ...values });
    feed = openFeed(model);
  };

  beforeEach(() => {
    telemetry = new KernelTelemetry('k');
    open({ _snapshot: snapshotOf('r1', 'evaluation') });
  });

  afterEach(() => {
    feed.dispose();
    telemetry.dispose();
  });

  it('follows the newest run if the widget has no run', () => {
    expect(feed.run?.name).toBe('evaluation');
    model.set('_snapshot', snapshotOf('r2', 'training'));
    expect(feed.run?.name).toBe('training');
    expect(feed.awaited).toBeNull();
  });

  it('has only the name of its run until that run begins', () => {
    feed.dispose();
    open({ _snapshot: snapshotOf('r1', 'evaluation'), run_name: 'training' });
    expect(feed.run).toBeNull();
    expect(feed.awaited).toBe('training');
    // The id may be known before any data of the run.
    model.set('run_id', 'r2');
    expect(feed.run).toBeNull();
    model.set('_snapshot', snapshotOf('r2', 'training'));
    expect(feed.run?.id).toBe('r2');
    expect(feed.awaited).toBeNull();
  });

  it('stays with the run of the widget when another one begins', () => {
    feed.dispose();
    open({ _snapshot: snapshotOf('r1', 'training'), run_id: 'r1', run_name: 'training' });
    model.set('_snapshot', snapshotOf('r2', 'another'));
    expect(feed.run?.id).toBe('r1');
  });

  it('reports to the kernel that its page depends on it, and when the view is removed', () => {
    const { view } = model.sent[0] as { view: string };
    expect(model.sent).toEqual([{ type: 'feed', view, by: 'comm' }]);
    feed.dispose();
    expect(model.sent.slice(1)).toEqual([{ type: 'feed', view, by: null }]);
    open({});
    expect(model.sent).not.toContainEqual(expect.objectContaining({ view }));
  });

  it('reports to the kernel that it uses the bridge if the page has one', () => {
    feed.dispose();
    const host: WidgetHost = {
      telemetryOf: () => telemetry,
      machineOf: () => null,
      send: () => Promise.reject(new Error('Nothing is sent here.')),
      texts: trans
    };
    vi.stubGlobal(HOST_KEY, host);
    try {
      open({ kernel_id: 'k' });
      expect(feed.kernel).toBe(telemetry);
      expect(model.sent).toEqual([expect.objectContaining({ type: 'feed', by: 'bridge' })]);
    } finally {
      vi.unstubAllGlobals();
    }
  });

  it('follows the newest run if a kernel of an earlier version names none', () => {
    feed.dispose();
    open({ _snapshot: snapshotOf('r1', 'evaluation'), run_id: 'gone', run_name: undefined });
    expect(feed.run?.name).toBe('evaluation');
  });
});
