/** Checks requests against the schemas of their routes. */
import { TypeBoxValidatorCompiler } from '@fastify/type-provider-typebox';

/** As a client of ours writes them; more digits are beyond every limit. */
const PLAIN = /^-?\d{1,20}$/;

/**
 * The library turns the texts of a query into numbers, and of a whole one it reads the first digits: 1 of "1e400", 1 of "1.5".
 * Nobody who writes that has meant 1.
 */
export const validatorCompiler: typeof TypeBoxValidatorCompiler = route => {
  const validate = TypeBoxValidatorCompiler(route);
  if (route.httpPart !== 'querystring') return validate;
  const properties = (route.schema as { properties?: Record<string, { type?: unknown }> }).properties ?? {};
  const whole = Object.keys(properties).filter(name => properties[name]?.type === 'integer');
  return (value: unknown) => {
    const query = value as Readonly<Record<string, unknown>>;
    const wrong = whole.find(name => {
      const given = query[name];
      return typeof given === 'string' && !PLAIN.test(given);
    });
    if (wrong === undefined) return validate(value);
    const message = 'Expected a whole number, in digits';
    return {
      error: [
        {
          keyword: 'type',
          instancePath: `/${wrong}`,
          schemaPath: `#/properties/${wrong}`,
          params: {},
          message
        }
      ]
    };
  };
};
