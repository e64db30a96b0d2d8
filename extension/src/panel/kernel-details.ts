/**
 * Opening a notebook changes nothing. When a kernel is ready, Lab writes its details into the notebook: the Python version and the
 * display name. They differ between machines and are rewritten at each start, so they alone do not require a save. A substitute for
 * a kernel that is missing here does not either: the notebook still names the kernel that its owner wanted. Only a kernel that the
 * user has chosen is a change.
 */
interface IMetadataChange {
  readonly key: string;
  readonly oldValue?: unknown;
  readonly newValue?: unknown;
}

/** The used part of Lab's `INotebookModel`. */
interface INotebookDocument {
  dirty: boolean;
  setMetadata(key: string, value: unknown): void;
  readonly metadataChanged: {
    connect(slot: (sender: unknown, change: IMetadataChange) => void): boolean;
  };
}

/** The part of Lab's session context that users, and code on their behalf, change a kernel with. An automatic start takes another path. */
interface IKernelChanges {
  changeKernel(options?: never): Promise<unknown>;
}

/** Returns a check of whether a kernel was chosen since this call. */
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
 * @param isChosen whether the user has chosen the kernel
 * @param ofDefault the page itself chooses the kernel of a notebook that names none: it is written with the next change
 */
export function ignoreKernelDetails(
  notebook: INotebookDocument,
  isChosen: () => boolean = () => true,
  ofDefault = false
): void {
  let isRestored = false;
  notebook.metadataChanged.connect((_, change) => {
    const { key, oldValue } = change;
    const isFirst = ofDefault && key === 'kernelspec' && nameOf(oldValue) === undefined;
    const isSame = isFirst || isRestored || isOfSameKernel(change);
    const isSubstitute = !isSame && key === 'kernelspec' && nameOf(oldValue) !== undefined && !isChosen();
    if (!isSame && !isSubstitute) {
      return;
    }
    // Unsaved changes stay marked. Lab marks the notebook right after this signal.
    const wasDirty = notebook.dirty;
    queueMicrotask(() => {
      if (isSubstitute) {
        isRestored = true;
        notebook.setMetadata(key, oldValue);
        isRestored = false;
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

/** Undefined for none: where a file has no name, Lab's model has an empty one. */
function nameOf(value: unknown): unknown {
  const name = typeof value === 'object' && value !== null && 'name' in value ? value.name : undefined;
  return name === '' ? undefined : name;
}
