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

/** As `vite.config.mjs` makes it. */
declare module 'anywidget' {
  export default function exportsFor(base: object): Record<string, never>;
}

/** File System Access, where a browser has it. */
interface Window {
  showOpenFilePicker?(options: {
    readonly types: readonly {
      readonly description: string;
      readonly accept: Readonly<Record<string, readonly string[]>>;
    }[];
  }): Promise<FileSystemFileHandle[]>;
}

interface FileSystemHandle {
  queryPermission?(descriptor: { readonly mode: 'read' | 'readwrite' }): Promise<PermissionState>;
  requestPermission?(descriptor: { readonly mode: 'read' | 'readwrite' }): Promise<PermissionState>;
}
