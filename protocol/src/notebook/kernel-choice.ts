/**
 * Chooses the kernel for a notebook, the same way for session page and `tpulab execute`: the one it names, or one of its
 * language.
 */
import { objectOf } from './nbformat-values.js';

export interface NotebookKernel {
  readonly name: string;
  readonly displayName: string;
  /** In lower case; empty if the notebook does not state it. */
  readonly language: string;
}

/** `missing`: the named kernel does not exist, and no other kernel may replace it. */
export type KernelChoice =
  | { readonly kind: 'found'; readonly name: string }
  | { readonly kind: 'missing'; readonly wanted: NotebookKernel };

/** Kernelspecs of our environments: a notebook that names one needs the packages of that environment. */
const OURS = /^tpulab-/;
const PYTHON = 'python';
/** Common names of Python kernels. */
const PYTHON_NAME = /py|conda|venv/i;

export function kernelOf(metadata: Readonly<Record<string, unknown>>): NotebookKernel {
  const [spec, info] = [objectOf(metadata['kernelspec']), objectOf(metadata['language_info'])];
  const text = (value: unknown): string => (typeof value === 'string' ? value : '');
  return {
    name: text(spec['name']),
    displayName: text(spec['display_name']),
    language: (text(spec['language']) || text(info['name'])).toLowerCase()
  };
}

/** @param languages of the existing kernelspecs, by their names */
export function chooseKernel(
  wanted: NotebookKernel,
  languages: ReadonlyMap<string, string>,
  preferred: string
): KernelChoice {
  const { name, displayName, language } = wanted;
  const found = (one: string): KernelChoice => ({ kind: 'found', name: one });
  const lower = name.toLowerCase();
  for (const each of [name, lower]) if (languages.has(each)) return found(each);
  const ofLanguage = (one: string): string[] =>
    [...languages].filter(([, other]) => other.toLowerCase() === one).map(([each]) => each);
  const isPython =
    language === ''
      ? name === '' || PYTHON_NAME.test(name) || PYTHON_NAME.test(displayName)
      : /^i?python\d?$/.test(language);
  if (OURS.test(name) || languages.size === 0) return { kind: 'missing', wanted };
  const same = ofLanguage(isPython ? PYTHON : language);
  // A notebook that states neither name nor language gets the default, whatever its language.
  const isFree = name === '' && language === '';
  const [first = preferred] = isFree || same.includes(preferred) ? [preferred] : same;
  return isFree || same.length > 0 ? found(first) : { kind: 'missing', wanted };
}
