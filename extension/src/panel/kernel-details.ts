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

/**
 * @param ofDefault the page itself chooses the kernel of a notebook that names none: that nobody has asked for, and it is written with
 *   the next change
 */
export function ignoreKernelDetails(notebook: INotebookDocument, ofDefault = false): void {
  notebook.metadataChanged.connect((_, change) => {
    const isFirst = ofDefault && change.key === 'kernelspec' && nameOf(change.oldValue) === undefined;
    // What has to be saved already stays so. Lab marks the notebook right after this signal.
    if (!notebook.dirty && (isFirst || isOfSameKernel(change))) {
      queueMicrotask(() => {
        notebook.dirty = false;
      });
    }
  });
}

function isOfSameKernel({ key, oldValue, newValue }: IMetadataChange): boolean {
  if (key === 'language_info') {
    return nameOf(oldValue) === undefined || nameOf(oldValue) === nameOf(newValue);
  }
  return key === 'kernelspec' && oldValue !== undefined && nameOf(oldValue) === nameOf(newValue);
}

/** Undefined for none: where a file says nothing, Lab's model says that the name is empty. */
function nameOf(value: unknown): unknown {
  const name = typeof value === 'object' && value !== null && 'name' in value ? value.name : undefined;
  return name === '' ? undefined : name;
}
