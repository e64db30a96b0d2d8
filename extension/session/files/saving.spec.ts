// @vitest-environment jsdom
import type { Contents } from '@jupyterlab/services';
import { expect, it, onTestFinished } from 'vitest';
import { type FileStore, Saving } from './saving.js';

/** A text whose saves are answered by the test. */
class Document extends Saving {
  readonly path = 'a.txt';
  readonly saved: string[] = [];
  value = '';
  protected readonly isReady = true;
  protected isDirty = false;
  protected readonly version = '1';
  readonly #answers: (() => void)[] = [];

  static make(): Document {
    const file = (): Promise<Contents.IModel> => Promise.resolve({ hash: '1' } as Contents.IModel);
    const save: FileStore['save'] = (_path, options) =>
      new Promise(resolve => {
        document.saved.push(String(options?.content));
        document.#answers.push(() => resolve({ hash: '1' } as Contents.IModel));
      });
    const document: Document = new Document({ get: file, save } as unknown as FileStore, false);
    onTestFinished(() => document.dispose());
    return document;
  }

  edit(value: string): void {
    this.value = value;
    this.isDirty = true;
    this.onModel();
  }
  /** The store answers its oldest save. */
  answer(): void {
    this.#answers.shift()?.();
  }
  text(): string {
    return this.value;
  }
  parts(): [] {
    return [];
  }
  protected content(): Partial<Contents.IModel> {
    return { content: this.value };
  }
  protected isSame(): boolean {
    return false;
  }
  protected show(): void {}
  protected revert(): Promise<void> {
    return Promise.resolve();
  }
  protected adopt(): void {}
}

// The browser must ask before the page is left during a save, and a second save must wait for the first.
it('reports that leaving the page would lose changes until a running save is answered', async () => {
  const document = Document.make();
  document.edit('one');
  const saving = document.save();
  await expect.poll(() => document.saved).toEqual(['one']);
  expect(document.needsSave).toBe(true);
  document.answer();
  await saving;
  expect(document.needsSave).toBe(false);
});

it('a save requested during another one waits for it and writes the changes made meanwhile', async () => {
  const document = Document.make();
  document.edit('one');
  void document.save();
  await expect.poll(() => document.saved).toEqual(['one']);
  document.edit('two');
  let isDone = false;
  const second = document.save().then(() => void (isDone = true));
  expect(document.saved).toEqual(['one']);
  document.answer();
  await expect.poll(() => document.saved).toEqual(['one', 'two']);
  expect([isDone, document.needsSave]).toEqual([false, true]);
  document.answer();
  await second;
  expect(document.needsSave).toBe(false);
});
