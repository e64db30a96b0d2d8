import { getEventListeners, once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { aborted, deadline, orAborted } from './waiting.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

it('a deadline fires after its time, whatever is collected meanwhile', async () => {
  using limit = deadline(50, new AbortController().signal);
  const fired = once(limit.signal, 'abort');
  collectGarbage();
  await fired;
  expect(limit.signal.reason).toMatchObject({ name: 'TimeoutError' });
});

it('a deadline fires with its source signal, even one that has already fired', async () => {
  const controller = new AbortController();
  using limit = deadline(60_000, controller.signal);
  const fired = once(limit.signal, 'abort');
  controller.abort(new Error('over'));
  await fired;
  expect(limit.signal.reason).toMatchObject({ message: 'over' });
  using late = deadline(60_000, controller.signal);
  expect(late.signal.aborted).toBe(true);
});

// Node warns of a leak at eleven listeners, as of a connection that was lost and restored as often.
it('finished waits leave no listener on a long-lived signal', async () => {
  const controller = new AbortController();
  const { signal } = controller;
  for (let count = 0; count < 20; count += 1) {
    expect(await orAborted(Promise.resolve(count), signal)).toBe(count);
    const over = new AbortController();
    void aborted(signal, over.signal);
    over.abort();
  }
  expect(getEventListeners(signal, 'abort')).toEqual([]);
  const never = orAborted(new Promise<number>(() => undefined), signal);
  controller.abort();
  expect(await never).toBeUndefined();
});
