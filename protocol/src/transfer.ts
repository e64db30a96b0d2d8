/** How many bytes have been downloaded or sent. */
import { type Static, Type } from '@sinclair/typebox';

export const Transfer = Type.Object({
  bytes: Type.Number({ minimum: 0 }),
  totalBytes: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
    description: 'as far as it is known now; null: unknown'
  }),
  bytesPerS: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
    description: 'since it began; null: too short to measure'
  })
});
export type Transfer = Static<typeof Transfer>;
