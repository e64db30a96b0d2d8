/** What a client may hear of all events: everything, or what concerns the kernels of one notebook. */
import type { EventTopic } from '@tpulab/protocol';
import type { EventSource, SourcedEvent } from './event-source.js';

export type ReadableEvents = Pick<EventSource, 'listen' | 'watch' | 'historyFrom' | 'past'>;

/** Who else looks on, and which machines there are, is not part of a notebook. */
const CLOSED: ReadonlySet<EventTopic> = new Set(['clients', 'remotes']);

/** Asked again for each event: the kernel of a notebook changes. */
export function eventsOf(source: EventSource, isReadable: (kernelId: string) => boolean): ReadableEvents {
  const passes = ({ topic, kernelId }: SourcedEvent): boolean =>
    !CLOSED.has(topic) && (kernelId === null || isReadable(kernelId));
  return {
    listen: listener =>
      source.listen(event => {
        if (passes(event)) listener(event);
      }),
    watch: topics => source.watch(topics),
    historyFrom: () =>
      Object.fromEntries(Object.entries(source.historyFrom()).filter(([kernelId]) => isReadable(kernelId))),
    *past(topics, since) {
      for (const event of source.past(topics, since)) if (passes(event)) yield event;
    }
  };
}
