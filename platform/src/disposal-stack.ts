/** Disposes of resources in reverse order. (`AsyncDisposableStack` is not in the oldest Node that we support.) */
export class DisposalStack implements AsyncDisposable {
  #steps: (() => unknown)[] = [];
  #disposing: Promise<void> | null = null;

  /** Owns the object from now on. */
  use<T extends Disposable | AsyncDisposable>(resource: T): T {
    this.defer(() =>
      Symbol.asyncDispose in resource ? resource[Symbol.asyncDispose]() : resource[Symbol.dispose]()
    );
    return resource;
  }

  defer(step: () => unknown): void {
    this.#steps.push(step);
  }

  /** Every step runs, even after one that fails; the first failure is thrown at the end. */
  [Symbol.asyncDispose](): Promise<void> {
    return (this.#disposing ??= this.#dispose());
  }

  async #dispose(): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.#steps.reverse()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    this.#steps = [];
    if (failures.length > 0) throw failures[0];
  }
}
