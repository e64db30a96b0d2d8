/** Which kernel a notebook runs on, the same for session page and `tpulab execute`: the one that it names, or one of its language. */
import { objectOf } from './nbformat-values.js';

export interface NotebookKernel {
  readonly name: string;
  readonly displayName: string;
  /** In lower case; empty: the notebook does not say. */
  readonly language: string;
}

/** `missing`: what it names is not there, and no other kernel may take its place. */
export type KernelChoice =
  | { readonly kind: 'found'; readonly name: string }
  | { readonly kind: 'missing'; readonly wanted: NotebookKernel };

/** Kernelspecs of our environments: a notebook that names one needs what is in it. */
const OURS = /^tpulab-/;
const PYTHON = 'python';
/** Names that people give to kernels of Python. */
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

/** @param languages of the kernelspecs that are there, by their names */
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
  // A notebook that says nothing takes the default, whatever its language is.
  const isFree = name === '' && language === '';
  const [first = preferred] = isFree || same.includes(preferred) ? [preferred] : same;
  return isFree || same.length > 0 ? found(first) : { kind: 'missing', wanted };
}
