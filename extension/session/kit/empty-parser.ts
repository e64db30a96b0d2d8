/** Replaces `@lezer/generator`, which JupyterLab calls only for the grammar `@top Program { }`; this parser is generated beforehand. */
import { LRParser } from '@lezer/lr';

const GRAMMAR = '@top Program { }';

export function buildParser(grammar: string): LRParser {
  if (grammar !== GRAMMAR) throw new Error(`Only the grammar ${GRAMMAR} is prepared, not ${grammar}.`);
  return LRParser.deserialize({
    version: 14,
    states: 'UQOOOOO',
    stateData: 'Q~O',
    goto: 'QPP',
    nodeNames: '⚠ Program',
    maxTerm: 2,
    skippedNodes: [0],
    repeatNodeCount: 0,
    tokenData: 'RORO',
    tokenizers: [],
    topRules: { Program: [0, 1] },
    tokenPrec: 0
  });
}
