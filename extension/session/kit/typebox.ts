/** Replaces `@sinclair/typebox`: the kinds of types that the protocol uses. A kind that is missing here fails the build. */
import type { Type as AllTypes } from '@sinclair/typebox';
import { Array as ArrayType } from '../../../node_modules/@sinclair/typebox/build/esm/type/array/index.mjs';
import { Boolean as BooleanType } from '../../../node_modules/@sinclair/typebox/build/esm/type/boolean/index.mjs';
import { Integer as IntegerType } from '../../../node_modules/@sinclair/typebox/build/esm/type/integer/index.mjs';
import { Intersect as IntersectType } from '../../../node_modules/@sinclair/typebox/build/esm/type/intersect/index.mjs';
import { Literal as LiteralType } from '../../../node_modules/@sinclair/typebox/build/esm/type/literal/index.mjs';
import { Null as NullType } from '../../../node_modules/@sinclair/typebox/build/esm/type/null/index.mjs';
import { Number as NumberType } from '../../../node_modules/@sinclair/typebox/build/esm/type/number/index.mjs';
import { Object as ObjectType } from '../../../node_modules/@sinclair/typebox/build/esm/type/object/index.mjs';
import { Omit as OmitType } from '../../../node_modules/@sinclair/typebox/build/esm/type/omit/index.mjs';
import { Optional as OptionalType } from '../../../node_modules/@sinclair/typebox/build/esm/type/optional/index.mjs';
import { Record as RecordType } from '../../../node_modules/@sinclair/typebox/build/esm/type/record/index.mjs';
import { String as StringType } from '../../../node_modules/@sinclair/typebox/build/esm/type/string/index.mjs';
import { Tuple as TupleType } from '../../../node_modules/@sinclair/typebox/build/esm/type/tuple/index.mjs';
import { Union as UnionType } from '../../../node_modules/@sinclair/typebox/build/esm/type/union/index.mjs';
import { Unknown as UnknownType } from '../../../node_modules/@sinclair/typebox/build/esm/type/unknown/index.mjs';

type Kinds = Pick<
  typeof AllTypes,
  | 'Array'
  | 'Boolean'
  | 'Integer'
  | 'Intersect'
  | 'Literal'
  | 'Null'
  | 'Number'
  | 'Object'
  | 'Omit'
  | 'Optional'
  | 'Record'
  | 'String'
  | 'Tuple'
  | 'Union'
  | 'Unknown'
>;

export const Type: Kinds = {
  Array: ArrayType,
  Boolean: BooleanType,
  Integer: IntegerType,
  Intersect: IntersectType,
  Literal: LiteralType,
  Null: NullType,
  Number: NumberType,
  Object: ObjectType,
  Omit: OmitType,
  Optional: OptionalType,
  Record: RecordType,
  String: StringType,
  Tuple: TupleType,
  Union: UnionType,
  Unknown: UnknownType
};
