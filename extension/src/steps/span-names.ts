/** The names of the five spans, and their meanings. */
import type { Span } from '../events/step-ring.js';
import { trans } from '../text/trans.js';

export function spanName(span: Span): string {
  switch (span) {
    case 'input':
      return trans.__('input');
    case 'host':
      return trans.__('host');
    case 'compile':
      return trans.__('compile');
    case 'device':
      return trans.__('device');
    case 'gap':
      return trans.__('idle');
  }
}

export function spanMeaning(span: Span): string {
  switch (span) {
    case 'input':
      return trans.__('waiting for the next batch');
    case 'host':
      return trans.__('Python: tracing, dispatch and your own code');
    case 'compile':
      return trans.__('XLA compiling');
    case 'device':
      return trans.__('the device computing');
    case 'gap':
      return trans.__('the device idle');
  }
}
