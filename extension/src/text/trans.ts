/** Each text of the extension is translated here, in its one translation domain. English needs no language pack. */
import type { TranslationBundle } from '@jupyterlab/translation';

/** The texts are translated with these two only. */
export type Texts = Pick<TranslationBundle, '__' | '_n'>;

type Value = string | number;

/** `%1` … `%9` are the values; a single `%` is itself, as in JupyterLab. */
function filled(text: string, values: readonly Value[]): string {
  return text.replace(/%(\d)/g, (mark, digit: string) => String(values[Number(digit) - 1] ?? mark));
}

/** JupyterLab's translations, or the English texts themselves: for hosts without JupyterLab, and until its plugins are activated. */
export let trans: Texts = {
  __: (text: string, ...values: Value[]) => filled(text, values),
  _n: (one: string, many: string, count: number, ...values: Value[]) =>
    filled(count === 1 ? one : many, [count, ...values])
};

/** Called by each plugin that has texts, before it makes any. Another language reloads the page, so all have the same translator. */
export function translateWith(translator: { load(domain: string): Texts } | null | undefined): void {
  if (translator) trans = translator.load('jupyterlab_tpulab');
}
