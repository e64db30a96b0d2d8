/** The words of libtpu's SDK as figures. Its lists hold text: `12.5`, `tray1.chip3.ici0.int: 0`, `0-3`. */
import type { SdkFigures } from '@tpulab/protocol';

type Link = SdkFigures['links'][number];

/** Null for a line that is none of the helper's. */
export function parseSdkLine(line: string, time: number): SdkFigures | null {
  let told: unknown;
  try {
    told = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof told !== 'object' || told === null) return null;
  const list = (name: string): string[] => {
    const value = (told as Record<string, unknown>)[name];
    return Array.isArray(value) ? value.filter(item => typeof item === 'string') : [];
  };
  return {
    time,
    tensorCorePercent: list('tensorcore_util').map(text => {
      const percent = Number(text);
      return Number.isFinite(percent) && percent >= 0 && percent <= 100 ? percent : null;
    }),
    throttlePercent: list('tpu_throttle_score').flatMap(text => {
      const found = /^(\d+)-(\d+)$/.exec(text.trim());
      const percent = Number(found?.[2]) * 10;
      return found && percent <= 100 ? [{ device: Number(found[1]), percent }] : [];
    }),
    links: list('ici_link_health').flatMap(text => {
      const found = /^(\S+?)(?:\.int)?:\s*(\d+)$/.exec(text.trim());
      const score = Number(found?.[2]);
      return found?.[1] !== undefined && score <= 10
        ? [{ name: found[1], score, state: stateOf(score) }]
        : [];
    })
  };
}

function stateOf(score: number): Link['state'] {
  if (score === 0) return 'ok';
  if (score <= 5) return 'transient';
  return score <= 9 ? 'minor' : 'unusable';
}
