declare module 'katex/contrib/auto-render' {
  export interface Delimiter {
    readonly left: string;
    readonly right: string;
    readonly display: boolean;
  }
  export default function renderMathInElement(
    element: HTMLElement,
    options: { readonly delimiters: readonly Delimiter[]; readonly throwOnError: boolean }
  ): void;
}

declare module 'anywidget';
