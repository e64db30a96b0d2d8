/** English as it stands in the source, for hosts without JupyterLab's translations. */
import type { TranslationBundle } from '@jupyterlab/translation';

/** `%1` … `%9` are the values; a single `%` is itself, as in JupyterLab. */
function filled(text: string, values: readonly unknown[]): string {
  return text.replace(/%(\d)/g, (mark, digit: string) => {
    const value = values[Number(digit) - 1];
    return value === undefined ? mark : String(value as string | number);
  });
}

const said = {
  __: (text: string, ...values: unknown[]): string => filled(text, values),
  _n: (one: string, many: string, count: number, ...values: unknown[]): string =>
    filled(count === 1 ? one : many, [count, ...values])
};

/** Only `__` and `_n` are ever asked for by the models that the widgets share. */
export const english = said as unknown as TranslationBundle;
