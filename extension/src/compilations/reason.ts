/** Why something was compiled, in words with code in them. */
import type { CodeLocation, CompileReason } from '@tpulab/protocol';
import type { Compilation } from '../events/compilation-log.js';
import { type TextPiece, withCode } from '../text/marked.js';
import { trans } from '../text/trans.js';

/** The changes since the last compilation of the function; empty for a first one, which needs no reason. */
export function reasonPieces(reason: CompileReason): TextPiece[] {
  const { verdict, argument, before, after } = reason;
  if (verdict === 'first') return [];
  if (argument !== null && before !== null && after !== null) {
    const sentence =
      verdict === 'static'
        ? (...marks: string[]) => trans.__('static argument %1 was %2, now %3', ...marks)
        : verdict === 'sharding'
          ? (...marks: string[]) => trans.__('sharding of %1 was %2, now %3', ...marks)
          : (...marks: string[]) => trans.__('argument %1 was %2, now %3', ...marks);
    return withCode(sentence, argument, before, after);
  }
  if (argument !== null) return withCode((...marks) => changedArgument(verdict, marks), argument);
  return [{ text: changed(verdict), code: false }];
}

/** `cell [7] line 12`, `train.py line 33`; empty when unknown. */
export function locationText(location: CodeLocation | null): string {
  if (!location) return '';
  const { cellId, executionCount, line, file } = location;
  if (executionCount !== null || cellId !== null) {
    const cell = executionCount === null ? trans.__('cell') : trans.__('cell [%1]', executionCount);
    return line === null ? cell : trans.__('%1 line %2', cell, line);
  }
  if (file === null) return '';
  const name = file.split(/[\\/]/).at(-1) ?? file;
  return line === null ? name : trans.__('%1 line %2', name, line);
}

/** The persistent cache's outcome unless it was a hit, which the card's title states; empty if not reported. */
export function cacheText(cache: Compilation['cache'], { short }: { readonly short: boolean }): string {
  if (!cache || cache.result === 'hit') return '';
  const outcome = cache.result === 'off' ? trans.__('Cache: off.') : trans.__('Cache: miss.');
  return short || cache.reason === null ? outcome : `${outcome} ${cache.reason}`;
}

type Verdict = CompileReason['verdict'];

function changedArgument(verdict: Verdict, marks: string[]): string {
  switch (verdict) {
    case 'shape':
      return trans.__('the shape of argument %1 changed', ...marks);
    case 'dtype':
      return trans.__('the type of argument %1 changed', ...marks);
    case 'tree':
      return trans.__('the structure of argument %1 changed', ...marks);
    case 'static':
      return trans.__('static argument %1 changed', ...marks);
    case 'sharding':
      return trans.__('the sharding of argument %1 changed', ...marks);
    default:
      return trans.__('argument %1 changed', ...marks);
  }
}

function changed(verdict: Verdict): string {
  switch (verdict) {
    case 'shape':
      return trans.__('the shape of an argument changed');
    case 'dtype':
      return trans.__('the type of an argument changed');
    case 'tree':
      return trans.__('the structure of the arguments changed');
    case 'static':
      return trans.__('a static argument changed');
    case 'redefined':
      return trans.__('the function was redefined, as when its cell is rerun');
    case 'sharding':
      return trans.__('the sharding of an argument changed');
    default:
      return trans.__('for an unknown reason');
  }
}
