// @vitest-environment jsdom
import type { MediaMessage } from '@tpulab/protocol';
import { act } from 'react';
import { describe, expect, it, vi } from 'vitest';
import { T0 } from '../events/samples.spec-data.js';
import { reactPlace } from '../testing/react-place.js';
import { MediaView } from './media-view.js';

function medium(id: number, name: string, mime = 'image/png'): MediaMessage {
  return { type: 'media', time: T0, run: 'r1', id, step: id * 10, name, mime };
}

describe('logged pictures, sound and text', () => {
  const place = reactPlace();
  const show = async (media: readonly MediaMessage[], lost: readonly number[] = []): Promise<number[]> => {
    const loaded: number[] = [];
    const onLoad = async (id: number): Promise<MediaMessage | null> => {
      loaded.push(id);
      const found = media.find(one => one.id === id);
      return found && !lost.includes(id) ? { ...found, data: `DATA${id}` } : null;
    };
    place.show(<MediaView media={media} onLoad={onLoad} />);
    await act(async () => Promise.resolve());
    return loaded;
  };

  it('shows the newest of each name, and earlier ones by a slider; only visible media are loaded', async () => {
    const loaded = await show([medium(1, 'sample'), medium(2, 'sample'), medium(3, 'text', 'text/plain')]);
    expect(loaded).toEqual([2, 3]);
    const picture = place.host.querySelector('img');
    expect([picture?.src, picture?.alt]).toEqual(['data:image/png;base64,DATA2', 'sample at step 20']);
    expect(place.host.querySelector('pre')?.textContent).toBe('DATA3');
    const sliders = place.host.querySelectorAll('input');
    expect(sliders).toHaveLength(1);
    await act(async () => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(sliders[0], '0');
      sliders[0]?.dispatchEvent(new Event('input', { bubbles: true }));
      await Promise.resolve();
    });
    expect(loaded).toEqual([2, 3, 1]);
    expect(place.host.querySelector('img')?.alt).toBe('sample at step 10');
  });

  it('plays sound', async () => {
    await show([medium(1, 'voice', 'audio/wav')]);
    expect(place.host.querySelector('audio')?.src).toBe('data:audio/wav;base64,DATA1');
  });

  it('reports that a picture is no longer stored', async () => {
    vi.useFakeTimers();
    await show([medium(1, 'sample')], [1]);
    await act(() => vi.advanceTimersByTimeAsync(5_000));
    vi.useRealTimers();
    expect(place.host.textContent).toContain('no longer stored');
  });
});
