// @vitest-environment jsdom
import { act, type JSX } from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RemotesError } from '../../backends/remotes-api.js';
import { reactPlace } from '../../testing/react-place.js';
import { useAnswer } from './use-answer.js';

/** Gives these answers in order, then stays pending. */
function asker(...answers: (string | Error)[]) {
  return vi.fn((): Promise<string> => {
    const answer = answers.shift();
    if (answer === undefined) return new Promise(() => undefined);
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  });
}

describe('an answer', () => {
  const place = reactPlace();
  const starting = new RemotesError('remotes.unreachable', 'It is not ready yet.');

  function View({ ask: request }: { readonly ask: () => Promise<string> }): JSX.Element {
    const { value, problem, isAsking } = useAnswer(request, 'what');
    const text = isAsking ? 'asking' : (problem ?? value);
    return <>{text}</>;
  }
  const show = async (request: () => Promise<string>): Promise<void> => {
    place.show(<View ask={request} />);
    await later(0);
  };
  const later = (ms: number): Promise<void> => act(async () => void (await vi.advanceTimersByTimeAsync(ms)));

  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('of a starting bridge is requested until it arrives, and the problem is shown meanwhile', async () => {
    const request = asker(starting, new RemotesError('not_ready', 'It looks for kernels.'), 'here');
    await show(request);
    expect(place.host.textContent).toBe('It is not ready yet.');
    await later(2_000);
    expect(place.host.textContent).toBe('It looks for kernels.');
    await later(2_000);
    expect(place.host.textContent).toBe('here');
    await later(60_000);
    expect(request).toHaveBeenCalledTimes(3);
  });

  it('with a refusal is final', async () => {
    const request = asker(new RemotesError('remotes.unknownRoute', 'It knows none.'));
    await show(request);
    await later(60_000);
    expect(place.host.textContent).toBe('It knows none.');
    expect(request).toHaveBeenCalledTimes(1);
  });

  it('is no longer requested when no view is open', async () => {
    const request = asker(starting, starting);
    await show(request);
    place.show(null);
    await later(60_000);
    expect(request).toHaveBeenCalledTimes(1);
  });
});
