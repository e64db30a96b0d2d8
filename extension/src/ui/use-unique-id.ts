/** An id that is unique in the document. */
import { useState } from 'react';

/** React's own `useId` restarts its count in each copy of the library, and a page with widgets has several. */
export function useUniqueId(): string {
  const [id] = useState(() => `tpulab-${Math.random().toString(36).slice(2)}`);
  return id;
}
