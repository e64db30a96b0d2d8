/** Draws a text with pieces of code in it. */
import type { JSX } from 'react';
import type { TextPiece } from '../text/marked.js';

export function Marked({ pieces }: { readonly pieces: readonly TextPiece[] }): JSX.Element {
  return (
    <>
      {pieces.map((piece, at) =>
        piece.code ? <code key={at}>{piece.text}</code> : <span key={at}>{piece.text}</span>
      )}
    </>
  );
}
