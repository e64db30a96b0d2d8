/** An id that is nobody else's in the document. */
import { useState } from 'react';

/** React's own `useId` counts in each copy of the library anew, and a page with widgets has several. */
export function useUniqueId(): string {
  const [id] = useState(() => `tpulab-${Math.random().toString(36).slice(2)}`);
  return id;
}
