// @vitest-environment jsdom
import { act, type JSX } from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RemotesError } from '../../backends/remotes-api.js';
import { reactPlace } from '../../testing/react-place.js';
import { useAnswer } from './use-answer.js';

/** While the answers last; then it is pending. */
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

  function View({ ask }: { readonly ask: () => Promise<string> }): JSX.Element {
    const { value, problem, isAsking } = useAnswer(ask, 'what');
    const text = isAsking ? 'asking' : (problem ?? value);
    return <>{text}</>;
  }
  const show = async (ask: () => Promise<string>): Promise<void> => {
    place.show(<View ask={ask} />);
    await later(0);
  };
  const later = (ms: number): Promise<void> => act(async () => void (await vi.advanceTimersByTimeAsync(ms)));

  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('of a bridge that starts is asked for until it comes, and what is wrong is shown meanwhile', async () => {
    const ask = asker(starting, new RemotesError('not_ready', 'It looks for kernels.'), 'here');
    await show(ask);
    expect(place.host.textContent).toBe('It is not ready yet.');
    await later(2_000);
    expect(place.host.textContent).toBe('It looks for kernels.');
    await later(2_000);
    expect(place.host.textContent).toBe('here');
    await later(60_000);
    expect(ask).toHaveBeenCalledTimes(3);
  });

  it('that is a refusal is one', async () => {
    const ask = asker(new RemotesError('remotes.unknownRoute', 'It knows none.'));
    await show(ask);
    await later(60_000);
    expect(place.host.textContent).toBe('It knows none.');
    expect(ask).toHaveBeenCalledTimes(1);
  });

  it('is no longer asked for when nobody looks', async () => {
    const ask = asker(starting, starting);
    await show(ask);
    place.show(null);
    await later(60_000);
    expect(ask).toHaveBeenCalledTimes(1);
  });
});
