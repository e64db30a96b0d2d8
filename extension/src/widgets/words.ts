/** The English source texts, for hosts without JupyterLab's translations. */
import type { TranslationBundle } from '@jupyterlab/translation';

/** The values that fill the texts. */
type Value = string | number;

/** `%1` … `%9` are the values; a single `%` is itself, as in JupyterLab. */
function filled(text: string, values: readonly Value[]): string {
  return text.replace(/%(\d)/g, (mark, digit: string) => {
    const value = values[Number(digit) - 1];
    return value === undefined ? mark : String(value);
  });
}

const bundle = {
  __: (text: string, ...values: Value[]): string => filled(text, values),
  _n: (one: string, many: string, count: number, ...values: Value[]): string =>
    filled(count === 1 ? one : many, [count, ...values])
};

/** The models shared by the widgets call only `__` and `_n`. */
export const english = bundle as unknown as TranslationBundle;
