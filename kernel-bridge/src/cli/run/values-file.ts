/** A parameter file: YAML or JSON, with names and values. */
import { readFile } from 'node:fs/promises';
import { parseDocument, type ScalarTag } from 'yaml';
import { CommandError } from '../output.js';
import { parameterValue } from './bridge-calls.js';

/** 1.0 stays a Python float, and 1e-4 is a float. */
const FLOAT: ScalarTag = {
  tag: 'tag:yaml.org,2002:float',
  default: true,
  test: /^[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?$/,
  resolve: parameterValue
};
/** Booleans of YAML 1.1, as papermill's parser has them. */
const YAML_1_1_BOOLEAN: ScalarTag = {
  tag: 'tag:yaml.org,2002:bool',
  default: true,
  test: /^(?:yes|on|no|off)$/i,
  resolve: text => /^(?:yes|on)$/i.test(text)
};

export async function valuesIn(file: string): Promise<Record<string, unknown>> {
  try {
    const document = parseDocument(await readFile(file, 'utf8'), {
      intAsBigInt: true,
      customTags: tags => [FLOAT, YAML_1_1_BOOLEAN, ...tags],
      // Otherwise Node itself prints a warning for a key that is a list.
      logLevel: 'error'
    });
    const [fault] = [...document.errors, ...document.warnings];
    if (fault) throw fault;
    const found: unknown = document.toJS();
    if (typeof found === 'object' && found !== null && !Array.isArray(found)) return { ...found };
    throw new TypeError('it has no names with values');
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.split('\n', 1)[0] : '';
    throw new CommandError('run_not_started', `The file of parameters ${file} cannot be used: ${why}.`, {
      cause
    });
  }
}
