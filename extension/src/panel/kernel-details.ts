/**
 * Opening a notebook changes nothing. When a kernel is there, Lab writes what it says of itself into the notebook: the version of its
 * Python, the name under which it is shown. That differs from machine to machine and is written again at each start, so by itself it is
 * nothing to save. Nor is another kernel that took the place of one that is missing here: the notebook still names the one that its owner
 * wanted. Only a kernel that a person has chosen is a change.
 */
interface IMetadataChange {
  readonly key: string;
  readonly oldValue?: unknown;
  readonly newValue?: unknown;
}

/** The part of Lab's `INotebookModel` that is needed. */
export interface INotebookDocument {
  dirty: boolean;
  setMetadata(key: string, value: unknown): void;
  readonly metadataChanged: {
    connect(slot: (sender: unknown, change: IMetadataChange) => void): boolean;
  };
}

/** The part of Lab's session context by which people, and what acts for them, change a kernel. A start by itself takes another way. */
export interface IKernelChanges {
  changeKernel(options?: never): Promise<unknown>;
}

/** From then on tells whether a kernel was chosen. */
export function watchChoice(sessionContext: IKernelChanges): () => boolean {
  let isChosen = false;
  const change = sessionContext.changeKernel.bind(sessionContext);
  sessionContext.changeKernel = options => {
    isChosen = true;
    return change(options);
  };
  return () => isChosen;
}

/**
 * @param isChosen whether a person has chosen the kernel
 * @param ofDefault the page itself chooses the kernel of a notebook that names none: it is written with the next change
 */
export function ignoreKernelDetails(
  notebook: INotebookDocument,
  isChosen: () => boolean = () => true,
  ofDefault = false
): void {
  let isPutBack = false;
  notebook.metadataChanged.connect((_, change) => {
    const { key, oldValue } = change;
    const isFirst = ofDefault && key === 'kernelspec' && nameOf(oldValue) === undefined;
    const isSame = isFirst || isPutBack || isOfSameKernel(change);
    const isSubstitute = !isSame && key === 'kernelspec' && nameOf(oldValue) !== undefined && !isChosen();
    if (!isSame && !isSubstitute) {
      return;
    }
    // What has to be saved already stays so. Lab marks the notebook right after this signal.
    const wasDirty = notebook.dirty;
    queueMicrotask(() => {
      if (isSubstitute) {
        isPutBack = true;
        notebook.setMetadata(key, oldValue);
        isPutBack = false;
      }
      if (!wasDirty) {
        notebook.dirty = false;
      }
    });
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
