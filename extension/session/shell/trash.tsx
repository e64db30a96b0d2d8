/** Deleted items below the root folder, which can be restored. Loaded when it is opened. */
import { type JSX, useEffect, useRef, useState } from 'react';
import type { TrashPage } from '@tpulab/protocol';
import { sure } from '../../src/ui/sure.js';
import type { SessionPage } from '../page/session-page.js';
import { Icon } from './icons.js';
import { messageOf, trans } from '../text.js';
import { momentText } from '../../src/text/moment.js';
import { Button } from './plain.js';

export default function Trash({
  page,
  changes,
  onChange
}: {
  readonly page: SessionPage;
  /** Number of file changes: the list is read again after each. */
  readonly changes: number;
  readonly onChange: () => void;
}): JSX.Element {
  const [trash, setTrash] = useState<TrashPage | null>(null);
  const [statusText, setStatusText] = useState('');
  const heading = useRef<HTMLHeadingElement>(null);
  const { files } = page.drive;
  useEffect(() => {
    files.listTrash().then(setTrash, (error: unknown) => setStatusText(messageOf(error)));
  }, [files, changes]);
  const restore = async (id: string): Promise<void> => {
    try {
      const { path } = await files.restore(id);
      setStatusText(trans.__('%1 was restored.', path));
    } catch (error) {
      setStatusText(messageOf(error));
    }
    onChange();
    // The focused button disappears with its row.
    heading.current?.focus();
  };
  const remove = async (id: string | null, title: string): Promise<void> => {
    if (await sure(title, trans.__('This cannot be undone.'), trans.__('Delete'))) {
      await files.removeFromTrash(id).catch((error: unknown) => setStatusText(messageOf(error)));
      onChange();
    }
    heading.current?.focus();
  };
  return (
    <section aria-labelledby="tpl-trash">
      <h2 id="tpl-trash" ref={heading} tabIndex={-1}>
        {trans.__('Trash')}
        {trash === null || trash.items.length === 0 ? null : (
          <Button onClick={() => void remove(null, trans.__('Delete everything in the trash?'))}>
            {trans.__('Empty the trash…')}
          </Button>
        )}
      </h2>
      <p role="status">{statusText}</p>
      {trash === null ? null : trash.items.length === 0 ? (
        <p className="jp-TPULab-quiet">{trans.__('The trash is empty.')}</p>
      ) : (
        <ul className="tpl-Home-files">
          {trash.items.map(({ id, path, kind, deletedAt }) => (
            <li key={id}>
              <Icon name={kind === 'folder' ? 'folder' : 'file'} />
              <span>{path}</span>
              <time className="tpl-Home-size" dateTime={deletedAt}>
                {momentText(Date.parse(deletedAt), Date.now())}
              </time>
              <Button aria-label={trans.__('Restore %1', path)} onClick={() => void restore(id)}>
                {trans.__('Restore')}
              </Button>
              <Button
                aria-label={trans.__('Delete %1 permanently', path)}
                onClick={() => void remove(id, trans.__('Delete %1 permanently?', path))}
              >
                {trans.__('Delete…')}
              </Button>
            </li>
          ))}
        </ul>
      )}
      {trash?.isCut === true ? (
        <p className="jp-TPULab-quiet">
          {trans.__("Older files are in .tpulab-trash in the server's root folder.")}
        </p>
      ) : null}
    </section>
  );
}
