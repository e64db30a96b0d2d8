/** A script for the frame of an output, and its address. */
declare module '*?frame' {
  const address: string;
  export default address;
}

/** Of `index.html`: repeats for some seconds what fails because the network has changed. */
declare function tpulabRetry<T>(load: () => Promise<T>): Promise<T>;

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
