/** Links that let others read one notebook: `/bridge/v1/links`. */
import { type Static, Type } from '@sinclair/typebox';

export const Share = Type.Object({
  name: Type.String({ description: 'by which it is revoked; also in `tpulab token list`' }),
  path: Type.String({ description: 'of the notebook, relative to the root folder' }),
  createdAt: Type.String({ format: 'date-time' }),
  expiresAt: Type.Union([Type.String({ format: 'date-time' }), Type.Null()]),
  expired: Type.Boolean()
});
export type Share = Static<typeof Share>;

export const ShareList = Type.Object({ shares: Type.Array(Share) });
export type ShareList = Static<typeof ShareList>;

export const NewShareRequest = Type.Object(
  {
    path: Type.String({ minLength: 1, maxLength: 4096 }),
    expiresInHours: Type.Integer({ minimum: 1, description: 'hours; a year at most' })
  },
  { additionalProperties: false }
);
export type NewShareRequest = Static<typeof NewShareRequest>;

export const NewShare = Type.Intersect([
  Share,
  Type.Object({ token: Type.String({ description: 'shown here and never again' }) })
]);
export type NewShare = Static<typeof NewShare>;
