/** A script for the frame of an output, and its address. */
declare module '*?frame' {
  const address: string;
  export default address;
}

/** Defined in `index.html`: retries, for some seconds, loads that fail because the network has changed. */
declare function tpulabRetry<T>(load: () => Promise<T>): Promise<T>;

/** Built by `vite.config.mjs`. */
declare module 'anywidget' {
  export default function exportsFor(base: object): Record<string, never>;
}

/** File System Access, in browsers that support it. */
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
