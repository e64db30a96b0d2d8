/**
 * Opening a notebook changes nothing. When a kernel is there, Lab writes what it says of itself into the notebook: the version of its
 * Python, the name under which it is shown. That differs from machine to machine and is written again at each start, so by itself it is
 * nothing to save. Another kernel is: that somebody has chosen.
 */
interface IMetadataChange {
  readonly key: string;
  readonly oldValue?: unknown;
  readonly newValue?: unknown;
}

/** The part of Lab's `INotebookModel` that is needed. */
export interface INotebookDocument {
  dirty: boolean;
  readonly metadataChanged: {
    connect(slot: (sender: unknown, change: IMetadataChange) => void): boolean;
  };
}

export function ignoreKernelDetails(notebook: INotebookDocument): void {
  notebook.metadataChanged.connect((_, change) => {
    // What has to be saved already stays so. Lab marks the notebook right after this signal.
    if (!notebook.dirty && isOfSameKernel(change)) {
      queueMicrotask(() => {
        notebook.dirty = false;
      });
    }
  });
}

function isOfSameKernel({ key, oldValue, newValue }: IMetadataChange): boolean {
  if (key === 'language_info') {
    return oldValue === undefined || nameOf(oldValue) === nameOf(newValue);
  }
  return key === 'kernelspec' && oldValue !== undefined && nameOf(oldValue) === nameOf(newValue);
}

function nameOf(value: unknown): unknown {
  return typeof value === 'object' && value !== null && 'name' in value ? value.name : undefined;
}
